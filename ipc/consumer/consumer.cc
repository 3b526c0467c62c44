#include "ipc/consumer/consumer.h"

#include <algorithm>

#include "hal/base/status.h"

namespace modeld::ipc {
namespace {

// Clocks of one machine agree; what lies further ahead comes from another clock.
constexpr int64_t kClockToleranceNs = 10 * kNsPerMs;

long long ms(int64_t ns) {
  return static_cast<long long>(ns / kNsPerMs);
}

}  // namespace

const char* decision_name(Decision decision) {
  switch (decision) {
    case Decision::kNoEntry:
      return "no entry";
    case Decision::kMayEngage:
      return "may engage";
    case Decision::kSoftDisable:
      return "soft disable";
    case Decision::kImmediateDisable:
      return "immediate disable";
  }
  return "?";
}

void RateWindow::add(int64_t received_ns) {
  times_[count_++ % times_.size()] = received_ns;
}

double RateWindow::mean_hz(size_t intervals) const {
  const uint64_t n = std::min<uint64_t>({intervals, kLong, count_ == 0 ? 0 : count_ - 1});
  if (n == 0) return 0;
  const int64_t last = times_[(count_ - 1) % times_.size()];
  const int64_t first = times_[(count_ - 1 - n) % times_.size()];
  return last > first ? static_cast<double>(n) * 1e9 / static_cast<double>(last - first) : 0;
}

bool RateWindow::is_fine() const {
  const auto fine = [](double hz) { return hz >= kMinRateHz && hz <= kMaxRateHz; };
  return fine(mean_hz(kRecent)) || fine(mean_hz(kLong));
}

Consumer::Consumer(const Clock& clock, bool need_road, bool need_cabin) : clock_(clock) {
  road_.name = "road";
  road_.needed = need_road;
  cabin_.name = "cabin";
  cabin_.needed = need_cabin;
}

void Consumer::observe(const StateMessage& message) {
  state_received_ns_ = clock_.now();
  state_defect_ = defect_of_time("state message", message.header.time_ns);
  if (!state_defect_.empty()) return;
  state_accepted_ns_ = state_received_ns_;
  for (Model* const model : {&road_, &cabin_}) {
    model->listed = false;
    for (const ModelStatus& status : message.models) {
      if (status.name != model->name) continue;
      model->listed = true;
      model->state = status.state;
      model->reason = status.reason;
      model->text = status.text;
    }
  }
}

void Consumer::observe(const RoadMessage& message) {
  observe(road_, message.header, message.timings, message.frame_drop_percent);
}
void Consumer::observe(const CabinMessage& message) {
  observe(cabin_, message.header, message.timings, message.frame_drop_percent);
}

void Consumer::observe(Model& model,
                       const Header& header,
                       const Timings& timings,
                       float drop_percent) {
  model.defect = defect_of(model, header, timings);
  model.seen = true;
  model.received_ns = clock_.now();
  model.header = header;
  model.frame_drop_percent = drop_percent;
  model.rate.add(model.received_ns);
  if (model.defect.empty()) model.last_valid = {header.frame_id, timings.sof_ns, model.received_ns};
}

// Why a message sent at that time may not be acted on, whatever it says; empty if it may.
std::string Consumer::defect_of_time(const char* what, int64_t sent_ns) const {
  const int64_t age_ns = clock_.now() - sent_ns;
  if (age_ns > kConsumerTimeoutNs) return strf("%s was sent %lld ms ago", what, ms(age_ns));
  if (age_ns < -kClockToleranceNs) return strf("%s is dated %lld ms ahead", what, ms(-age_ns));
  return "";
}

// Why this output may not be acted on, whatever the state message says; empty if it may.
std::string Consumer::defect_of(const Model& model,
                                const Header& header,
                                const Timings& timings) const {
  const int64_t now = clock_.now();
  if (!header.valid) return strf("output is not valid (%s)", reason_name(header.reason));
  if (std::string defect = defect_of_time("output", header.time_ns); !defect.empty()) return defect;
  if (now - timings.sof_ns > kConsumerTimeoutNs)
    return strf("output is of a frame that began %lld ms ago", ms(now - timings.sof_ns));
  if (timings.sof_ns - now > kClockToleranceNs)
    return strf("output is of a frame dated %lld ms ahead", ms(timings.sof_ns - now));
  const LastValid& last = model.last_valid;
  if (last.received_ns == 0) return "";
  const auto frame = static_cast<unsigned long long>(header.frame_id);
  if (header.frame_id == last.frame_id) return strf("output repeats frame %llu", frame);
  if (timings.sof_ns <= last.sof_ns)
    return strf("output is of frame %llu, which began %lld ms before the last one (%llu)", frame,
                ms(last.sof_ns - timings.sof_ns), static_cast<unsigned long long>(last.frame_id));
  return "";
}

// Why this model may not be used now; empty if it may.
std::string Consumer::objection(const Model& model) const {
  const int64_t now = clock_.now();
  if (!model.listed) return strf("%s: not in the state message", model.name);
  if (model.state != ModelState::kReady && model.state != ModelState::kDegraded) {
    const std::string reason =
        model.reason == Reason::kNone ? "" : strf("(%s)", reason_name(model.reason));
    const std::string text = model.text.empty() ? "" : ": " + model.text;
    return strf("%s: %s%s%s", model.name, model_state_name(model.state), reason.c_str(),
                text.c_str());
  }
  if (!model.seen) return strf("%s: no output message seen", model.name);
  if (now - model.received_ns > kConsumerTimeoutNs)
    return strf("%s: last output is %lld ms old", model.name, ms(now - model.received_ns));
  if (!model.defect.empty()) return strf("%s: %s", model.name, model.defect.c_str());
  return "";
}

Consumer::Finding Consumer::judge(Model& model) {
  const std::string why = objection(model);
  // State and outputs carry the switch at different times: it counts once.
  const bool degraded = model.state == ModelState::kDegraded || model.header.degraded;
  const bool is_new = degraded && !model.degraded_reported;
  if (!why.empty()) {
    const int64_t held_ns = clock_.now() - model.last_valid.received_ns;
    const bool can_hold = model.last_valid.received_ns != 0 && held_ns <= kConsumerTimeoutNs;
    return {can_hold ? Decision::kSoftDisable : Decision::kImmediateDisable, why};
  }
  model.degraded_reported = degraded;
  if (is_new)
    return {Decision::kSoftDisable,
            strf("%s: switched to DEGRADED (%s)", model.name,
                 reason_name(model.reason == Reason::kNone ? model.header.reason : model.reason))};
  if (!model.rate.is_fine())
    return {Decision::kSoftDisable,
            strf("%s: outputs come at %.1f Hz", model.name, model.rate.recent_hz())};
  if (model.frame_drop_percent > kMaxFrameDropPercent)
    return {Decision::kSoftDisable, strf("%s: %.1f %% of the frames are lost", model.name,
                                         static_cast<double>(model.frame_drop_percent))};
  return {};
}

// Without a state there is nothing to act on; one that may not be used leaves the one before it to
// hold on to, as an output does.
Consumer::Finding Consumer::judge_state() const {
  const int64_t now = clock_.now();
  if (state_received_ns_ == 0) return {Decision::kImmediateDisable, "no state message seen"};
  if (now - state_received_ns_ > kConsumerTimeoutNs)
    return {Decision::kImmediateDisable,
            strf("last state message is %lld ms old", ms(now - state_received_ns_))};
  if (state_defect_.empty()) return {};
  const bool can_hold = state_accepted_ns_ != 0 && now - state_accepted_ns_ <= kConsumerTimeoutNs;
  return {can_hold ? Decision::kSoftDisable : Decision::kImmediateDisable, state_defect_};
}

Consumer::Finding Consumer::judge_all() {
  Finding worst = judge_state();
  if (worst.demands == Decision::kImmediateDisable) return worst;
  for (Model* const model : {&road_, &cabin_}) {
    if (!model->needed) continue;
    const Finding found = judge(*model);
    worst.demands = std::max(worst.demands, found.demands);
    if (!found.because.empty())
      worst.because += (worst.because.empty() ? "" : "; ") + found.because;
  }
  return worst;
}

Verdict Consumer::step() {
  const int64_t now = clock_.now();
  Finding found = judge_all();
  if (found.because.empty()) {
    engaged_ = true;
    soft_since_ns_ = 0;
    const std::string names = std::string(road_.needed ? "road" : "") +
                              (road_.needed && cabin_.needed ? " and " : "") +
                              (cabin_.needed ? "cabin" : "");
    return {Decision::kMayEngage, names + " outputs are alive, valid and fresh"};
  }
  if (!engaged_) return {Decision::kNoEntry, found.because};
  if (soft_since_ns_ == 0) soft_since_ns_ = now;
  const bool ran_out = now - soft_since_ns_ >= kSoftDisableNs;
  if (found.demands == Decision::kSoftDisable && !ran_out)
    return {Decision::kSoftDisable, found.because};
  engaged_ = false;
  soft_since_ns_ = 0;
  return {Decision::kImmediateDisable,
          (ran_out ? "3 s of soft disable are over: " : "") + std::move(found.because)};
}

}  // namespace modeld::ipc
