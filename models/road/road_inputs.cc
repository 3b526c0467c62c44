#include "models/road/road_inputs.h"

#include <algorithm>

namespace modeld::road {

void DesireHistory::push(std::span<const float, kDesires> desire) {
  std::array<float, kDesires>& pulse = pulses_[oldest_];
  pulse[0] = 0;
  for (size_t i = 1; i < kDesires; ++i) {
    pulse[i] = desire[i] - previous_[i] > kPulseRise ? desire[i] : 0.0f;
  }
  std::copy(desire.begin(), desire.end(), previous_.begin());
  previous_[0] = 0;
  oldest_ = (oldest_ + 1) % kFrames;
}

void DesireHistory::history(std::span<float, kHistoryRows * kDesires> out) const {
  std::fill(out.begin(), out.end(), 0.0f);
  for (size_t k = 0; k < kFrames; ++k) {
    const std::array<float, kDesires>& pulse = pulses_[(oldest_ + k) % kFrames];
    float* const highest = &out[k / kFrameSkip * kDesires];
    for (size_t i = 0; i < kDesires; ++i) highest[i] = std::max(highest[i], pulse[i]);
  }
}

void DesireHistory::reset() {
  *this = {};
}

std::array<float, 2> traffic_convention(bool is_right_hand_drive) {
  return {is_right_hand_drive ? 0.0f : 1.0f, is_right_hand_drive ? 1.0f : 0.0f};
}

}  // namespace modeld::road
