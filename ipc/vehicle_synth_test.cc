#include "ipc/vehicle_synth.h"

#include <cmath>
#include <numeric>

namespace modeld::ipc {
namespace {

TEST(VehicleSynth, IsAPureFunction) {
  for (uint64_t id = 0; id < 500; ++id)
    EXPECT_EQ(synth_vehicle(3, VehiclePattern::kLaneChange, id),
              synth_vehicle(3, VehiclePattern::kLaneChange, id));
  EXPECT_NE(synth_vehicle(3, VehiclePattern::kStraight, 1)->speed,
            synth_vehicle(3, VehiclePattern::kStraight, 100)->speed);
  EXPECT_NE(synth_vehicle(3, VehiclePattern::kStraight, 1)->rpy_calibration,
            synth_vehicle(4, VehiclePattern::kStraight, 1)->rpy_calibration);
}

TEST(VehicleSynth, StraightIsCalibratedAndWantsNothing) {
  for (uint64_t id = 0; id < 500; ++id) {
    const VehicleInputs v = *synth_vehicle(1, VehiclePattern::kStraight, id);
    ASSERT_TRUE(v.calibration_known);
    ASSERT_EQ(v.desire[0], 1.0f);
    for (const float angle : v.rpy_calibration) ASSERT_LE(std::abs(angle), 0.04f);
    ASSERT_GT(v.speed, 15.0f);
    ASSERT_LT(v.speed, 25.0f);
    ASSERT_EQ(v.time_ns, 0);
  }
}

TEST(VehicleSynth, LaneChangeRisesLeftThenRightAndIsOneHot) {
  int rises[8] = {};
  VehicleInputs last = *synth_vehicle(1, VehiclePattern::kLaneChange, 0);
  for (uint64_t id = 1; id < 400; ++id) {
    const VehicleInputs v = *synth_vehicle(1, VehiclePattern::kLaneChange, id);
    ASSERT_EQ(std::accumulate(v.desire.begin(), v.desire.end(), 0.0f), 1.0f);
    for (size_t k = 0; k < 8; ++k) rises[k] += v.desire[k] > last.desire[k] ? 1 : 0;
    last = v;
  }
  EXPECT_EQ(rises[3], 1);
  EXPECT_EQ(rises[4], 1);
}

TEST(VehicleSynth, UncalibratedAndOff) {
  EXPECT_FALSE(synth_vehicle(1, VehiclePattern::kUncalibrated, 1000)->calibration_known);
  EXPECT_FALSE(synth_vehicle(1, VehiclePattern::kOff, 0).has_value());
}

TEST(VehicleSynth, NamesRoundTrip) {
  for (const char* const name : {"straight", "lane-change", "uncalibrated", "off"})
    EXPECT_STREQ(vehicle_pattern_name(*parse_vehicle_pattern(name)), name);
  EXPECT_FALSE(parse_vehicle_pattern("fast").has_value());
}

}  // namespace
}  // namespace modeld::ipc
