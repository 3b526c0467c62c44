// Vehicle inputs of the road model: desire pulses and their history.
// Contract: push() takes the desire vector of every accepted frame; history() is the model's (25,
// 8) input, oldest row first. Only a rise above kPulseRise between two frames is a pulse, entry 0
// (no desire) never is. reset() forgets everything, the previous vector included. Units: none.
// Threading: one owner; no allocation.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace modeld::road {

inline constexpr size_t kDesires = 8;
inline constexpr size_t kHistoryRows = 25;  // 5 Hz, 5 s
inline constexpr size_t kFrameSkip = 4;     // camera frames per row
inline constexpr float kPulseRise = 0.99f;

class DesireHistory final {
 public:
  void push(std::span<const float, kDesires> desire);
  // Maximum over each group of four frames, the newest group last.
  void history(std::span<float, kHistoryRows * kDesires> out) const;
  void reset();

 private:
  static constexpr size_t kFrames = kHistoryRows * kFrameSkip;
  std::array<std::array<float, kDesires>, kFrames> pulses_{};  // ring
  std::array<float, kDesires> previous_{};
  size_t oldest_ = 0;
};

// One-hot: left-hand drive first.
std::array<float, 2> traffic_convention(bool is_right_hand_drive);

}  // namespace modeld::road
