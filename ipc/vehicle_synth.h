// Synthetic vehicle inputs: a pure function of (seed, pattern, frame id); floats are exact
// quotients of small integers. Threading: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ipc/message_types.h"

namespace modeld::ipc {

enum class VehiclePattern : uint8_t {
  kStraight,      // calibrated, desire none
  kLaneChange,    // a lane change left, then right, 2 s each, every 10 s
  kUncalibrated,  // calibration never known
  kOff,           // nothing is published
};

const char* vehicle_pattern_name(VehiclePattern pattern);
std::optional<VehiclePattern> parse_vehicle_pattern(std::string_view name);

// time_ns stays 0: the caller puts in when the values held. Nothing for kOff.
std::optional<VehicleInputs> synth_vehicle(uint64_t seed,
                                           VehiclePattern pattern,
                                           uint64_t frame_id);

}  // namespace modeld::ipc
