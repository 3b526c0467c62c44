// How many of the camera's frames were not run lately, in percent: a first-order filter over the
// runs (10 s at 20 Hz), as driving stacks expect it. Three frames lost within a few seconds pass
// 1 %. Contract: the first 10 runs after a reset count as without loss: a start is no lag.
// Threading: frame loop.
#pragma once

#include <algorithm>
#include <cstdint>

namespace modeld::daemon {

class DropFilter final {
 public:
  void reset() { *this = DropFilter(); }

  // The frame that is run next.
  void run(uint64_t frame_id) {
    const uint64_t lost = runs_ > 0 && frame_id > last_id_ ? frame_id - last_id_ - 1 : 0;
    last_id_ = frame_id;
    ++runs_;
    const double input = static_cast<double>(std::min<uint64_t>(lost, kMostLost));
    level_ = runs_ <= kFreeRuns ? 0 : level_ + kAlpha * (input - level_);
  }
  double percent() const { return 100 * level_ / (1 + level_); }

 private:
  static constexpr uint64_t kMostLost = 10;
  static constexpr uint64_t kFreeRuns = 10;
  static constexpr double kTimeConstant_s = 10;
  static constexpr double kPeriod_s = 0.05;
  static constexpr double kAlpha = kPeriod_s / (kTimeConstant_s + kPeriod_s);

  uint64_t last_id_ = 0;
  uint64_t runs_ = 0;
  double level_ = 0;
};

}  // namespace modeld::daemon
