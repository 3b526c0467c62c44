#include "ipc/tools/watch_stats.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "hal/base/clock.h"
#include "hal/base/hash.h"
#include "hal/base/text.h"

namespace modeld::ipc {
namespace {

constexpr double kMinRateHz = 19.0;
constexpr double kMaxLatencyMs = 50.0;

double rounded(double value) {
  return std::round(value * 1000.0) / 1000.0;
}

// Collects float fields: one digest for "did anything change", one flag for "is everything finite".
class FieldScan {
 public:
  void add(std::span<const float> values) {
    digest_ = combine(digest_, xxh128(std::as_bytes(values)));
    for (const float f : values) finite_ = finite_ && std::isfinite(f);
  }
  template <size_t N>
  void add(const Mdn<N>& mdn) {
    add(mdn.mean);
    add(mdn.std);
  }
  uint64_t digest() const { return digest_.lo; }
  bool finite() const { return finite_; }

 private:
  Hash128 digest_;
  bool finite_ = true;
};

FieldScan scan(const RoadMessage& m) {
  FieldScan out;
  out.add(m.plan);
  out.add(m.lane_lines);
  out.add(m.lane_line_probs);
  out.add(m.road_edges);
  out.add(m.leads);
  out.add(m.lead_probs);
  out.add(m.pose);
  out.add(m.road_transform);
  out.add(m.wide_from_device_euler);
  out.add(m.meta);
  out.add(m.desire_pred);
  out.add(m.desire_state);
  out.add(m.action);
  out.add(m.raw);
  return out;
}

void scan_side(FieldScan& out, const CabinSide& side) {
  out.add(side.face);
  const float probs[] = {side.face_prob,        side.left_eye_prob,    side.right_eye_prob,
                         side.left_blink_prob,  side.right_blink_prob, side.sunglasses_prob,
                         side.using_phone_prob, side.sleep_prob};
  out.add(probs);
}

FieldScan scan(const CabinMessage& m) {
  FieldScan out;
  scan_side(out, m.lhd);
  scan_side(out, m.rhd);
  out.add(std::span(&m.wheel_on_right_prob, 1));
  out.add(m.raw);
  return out;
}

// Worst first.
int severity(ModelState state) {
  switch (state) {
    case ModelState::kUnavailable:
      return 5;
    case ModelState::kLoading:
      return 4;
    case ModelState::kSelftest:
      return 3;
    case ModelState::kWarming:
      return 2;
    case ModelState::kDegraded:
      return 1;
    case ModelState::kReady:
      return 0;
  }
  return 6;
}

}  // namespace

void OutputStats::observe(const Header& header,
                          const Timings& timings,
                          uint64_t digest,
                          bool finite) {
  simulated_ = simulated_ || header.simulated;
  // The latency of a message, its send included, is known only to the next one.
  if (last_valid_ && header.sequence == last_sequence_ + 1 && timings.previous_latency_ns > 0)
    latencies_ns_.push_back(timings.previous_latency_ns);
  if (header.valid) {
    if (valid_ == 0) first_valid_ns_ = header.time_ns;
    if (valid_ > 0 && digest != last_digest_) ++changed_;
    if (!finite) ++non_finite_valid_;
    ++valid_;
    last_digest_ = digest;
  }
  last_valid_ = header.valid;
  last_sequence_ = header.sequence;
}

double OutputStats::rate_hz(int64_t now) const {
  if (valid_ < 2 || now <= first_valid_ns_) return 0;
  return static_cast<double>(valid_ - 1) * static_cast<double>(kNsPerSecond) /
         static_cast<double>(now - first_valid_ns_);
}

double OutputStats::latency_ms(int percent) const {
  if (latencies_ns_.empty()) return 0;
  std::vector<int64_t> sorted = latencies_ns_;
  const size_t rank = (sorted.size() * static_cast<size_t>(percent) + 99) / 100;
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::nth_element(sorted.begin(), at, sorted.end());
  return static_cast<double>(*at) / static_cast<double>(kNsPerMs);
}

bool OutputStats::changes() const {
  return valid_ >= 2 && 2 * changed_ >= valid_ - 1;
}

void WatchStats::observe(const StateMessage& message) {
  state_ = message;
}

void WatchStats::observe(const RoadMessage& message) {
  const FieldScan fields = scan(message);
  road_.observe(message.header, message.timings, fields.digest(), fields.finite());
}

void WatchStats::observe(const CabinMessage& message) {
  const FieldScan fields = scan(message);
  cabin_.observe(message.header, message.timings, fields.digest(), fields.finite());
}

// The chosen models that the state message lists.
std::vector<const ModelStatus*> WatchStats::chosen() const {
  std::vector<const ModelStatus*> out;
  for (const ModelStatus& model : state_.models) {
    if (choice_.has(model.name)) out.push_back(&model);
  }
  return out;
}

std::string WatchStats::overall_state() const {
  const auto models = chosen();
  const auto worst = std::max_element(models.begin(), models.end(),
                                      [](const ModelStatus* a, const ModelStatus* b) {
                                        return severity(a->state) < severity(b->state);
                                      });
  return worst == models.end() ? "none" : model_state_name((*worst)->state);
}

uint64_t WatchStats::unavailable_events() const {
  uint64_t total = 0;
  for (const ModelStatus* const model : chosen()) total += model->unavailable_after_ready;
  return total;
}

bool WatchStats::simulated() const {
  bool any = (choice_.road && road_.simulated()) || (choice_.cabin && cabin_.simulated());
  for (const ModelStatus* const model : chosen()) any = any || model->simulated;
  return any;
}

Json WatchStats::summary(int64_t now) const {
  Json out = Json::object();
  out.set("frames", choice_.road ? road_.valid() : cabin_.valid());
  out.set("road_hz", rounded(road_.rate_hz(now)));
  out.set("cabin_hz", rounded(cabin_.rate_hz(now)));
  out.set("road_ms_p50", rounded(road_.latency_ms(50)));
  out.set("road_ms_p99", rounded(road_.latency_ms(99)));
  out.set("cabin_ms_p50", rounded(cabin_.latency_ms(50)));
  out.set("cabin_ms_p99", rounded(cabin_.latency_ms(99)));
  out.set("state", overall_state());
  out.set("unavailable_events", unavailable_events());
  out.set("simulated", simulated());
  return out;
}

Status WatchStats::require(int64_t now) const {
  std::vector<std::string> broken;
  const auto models = chosen();
  if (models.size() < size_t{choice_.road} + size_t{choice_.cabin})
    broken.push_back(strf("%zu models in the state message, need %s", state_.models.size(),
                          choice_.text().c_str()));
  for (const ModelStatus* const model : models) {
    if (model->state != ModelState::kReady)
      broken.push_back(strf("%s is %s(%s): %s", model->name.c_str(), model_state_name(model->state),
                            reason_name(model->reason), model->text.c_str()));
  }
  if (unavailable_events() > 0)
    broken.push_back(
        strf("%llu unavailable events", static_cast<unsigned long long>(unavailable_events())));
  const struct {
    const char* name;
    const OutputStats& stats;
  } outputs[] = {{"road", road_}, {"cabin", cabin_}};
  for (const auto& [name, stats] : outputs) {
    if (!choice_.has(name)) continue;
    if (!stats.changes())
      broken.push_back(strf("%s outputs do not change (%llu valid messages)", name,
                            static_cast<unsigned long long>(stats.valid())));
    if (stats.non_finite_valid() > 0)
      broken.push_back(strf("%s: %llu valid messages are not finite", name,
                            static_cast<unsigned long long>(stats.non_finite_valid())));
    if (simulated()) continue;
    if (stats.rate_hz(now) < kMinRateHz)
      broken.push_back(strf("%s runs at %.2f Hz, need %.0f", name, stats.rate_hz(now), kMinRateHz));
    // No latency at all must not pass for a small one.
    const double p99 = stats.latency_ms(99);
    if (p99 <= 0 || p99 >= kMaxLatencyMs)
      broken.push_back(strf("%s p99 is %.3f ms, need less than %.0f", name, p99, kMaxLatencyMs));
  }
  if (broken.empty()) return {};
  return fail(Errc::kMismatch, join(broken, "; "));
}

}  // namespace modeld::ipc
