#include "ipc/vehicle_synth.h"

#include <array>

#include "ipc/synth_scene.h"

namespace modeld::ipc {
namespace {

constexpr std::array<const char*, 4> kNames = {"straight", "lane-change", "uncalibrated", "off"};

// Frames at 20 Hz.
constexpr uint64_t kLaneChangePeriod = 200;
constexpr uint64_t kLaneChangeFrames = 40;
constexpr size_t kDesireNone = 0;
constexpr size_t kDesireLaneChangeLeft = 3;
constexpr size_t kDesireLaneChangeRight = 4;

// A whole number from -range to range, over `parts`: exact in float.
float spread(uint64_t hash, int32_t range, int32_t parts) {
  const auto span = static_cast<uint64_t>(2 * range + 1);
  const auto n = static_cast<int32_t>(hash % span) - range;
  return static_cast<float>(n) / static_cast<float>(parts);
}

size_t desire_index(VehiclePattern pattern, uint64_t frame_id) {
  if (pattern != VehiclePattern::kLaneChange) return kDesireNone;
  const uint64_t phase = frame_id % kLaneChangePeriod;
  // The first second is straight, so that a rising edge is seen.
  if (phase < 20 || phase >= 20 + kLaneChangeFrames) return kDesireNone;
  return (frame_id / kLaneChangePeriod) % 2 == 0 ? kDesireLaneChangeLeft : kDesireLaneChangeRight;
}

}  // namespace

const char* vehicle_pattern_name(VehiclePattern pattern) {
  const auto i = static_cast<size_t>(pattern);
  return i < kNames.size() ? kNames[i] : "unknown";
}

std::optional<VehiclePattern> parse_vehicle_pattern(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<VehiclePattern>(i);
  }
  return std::nullopt;
}

std::optional<VehicleInputs> synth_vehicle(uint64_t seed,
                                           VehiclePattern pattern,
                                           uint64_t frame_id) {
  if (pattern == VehiclePattern::kOff) return std::nullopt;
  constexpr uint64_t kStreamTag = 0x76656863;  // keeps these apart from the pixels' hashes
  VehicleInputs out;
  out.calibration_known = pattern != VehiclePattern::kUncalibrated;
  if (out.calibration_known) {
    // Fixed for a seed, as a calibration is: up to 1/32 rad.
    out.rpy_calibration = {spread(synth_hash(seed, kStreamTag, 1), 8, 1024),
                           spread(synth_hash(seed, kStreamTag, 2), 32, 1024),
                           spread(synth_hash(seed, kStreamTag, 3), 32, 1024)};
  }
  out.desire[desire_index(pattern, frame_id)] = 1.0f;
  out.right_hand_drive = false;
  out.lateral_action_time = 0.25f;
  out.longitudinal_action_time = 0.5f;
  // 20 m/s with a slow wave of 2 m/s and a little noise.
  const auto wave = static_cast<int32_t>(frame_id % 256) - 128;
  out.speed = 20.0f + static_cast<float>(wave < 0 ? -wave : wave) / 64.0f +
              spread(synth_hash(seed, kStreamTag, 4, frame_id), 8, 256);
  return out;
}

}  // namespace modeld::ipc
