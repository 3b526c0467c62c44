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
  state_seen_ = true;
  state_ns_ = clock_.now();
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
  if (model.defect.empty()) model.last_valid = {header.frame_id, model.received_ns};
}

// Why this output may not be acted on, whatever the state message says; empty if it may.
std::string Consumer::defect_of(const Model& model,
                                const Header& header,
                                const Timings& timings) const {
  const int64_t now = clock_.now();
  if (!header.valid) return strf("output is not valid (%s)", reason_name(header.reason));
  if (now - header.time_ns > kConsumerTimeoutNs)
    return strf("output was sent %lld ms ago", ms(now - header.time_ns));
  if (header.time_ns - now > kClockToleranceNs)
    return strf("output is dated %lld ms ahead", ms(header.time_ns - now));
  if (now - timings.sof_ns > kConsumerTimeoutNs)
    return strf("output is of a frame that began %lld ms ago", ms(now - timings.sof_ns));
  if (model.last_valid.received_ns != 0 && header.frame_id == model.last_valid.frame_id)
    return strf("output repeats frame %llu", static_cast<unsigned long long>(header.frame_id));
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

Consumer::Finding Consumer::judge_all() {
  const int64_t now = clock_.now();
  if (!state_seen_) return {Decision::kImmediateDisable, "no state message seen"};
  if (now - state_ns_ > kConsumerTimeoutNs)
    return {Decision::kImmediateDisable,
            strf("last state message is %lld ms old", ms(now - state_ns_))};
  Finding worst;
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
    return {Decision::kMayEngage, "road and cabin outputs are alive, valid and fresh"};
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
