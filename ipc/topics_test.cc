#include "ipc/topics.h"

#include "ipc/model_state.h"

namespace modeld::ipc {
namespace {

TEST(Topics, NamesRoundTrip) {
  for (const Topic topic :
       {Topic::kVehicle, Topic::kRoad, Topic::kCabin, Topic::kState, Topic::kMetrics})
    EXPECT_EQ(parse_topic(topic_info(topic).name), topic);
  EXPECT_FALSE(parse_topic("sendcan").has_value());
}

TEST(Topics, StateIsFastEnoughForALateSubscriber) {
  EXPECT_GE(topic_info(Topic::kState).rate_hz, 10);
  EXPECT_EQ(topic_info(Topic::kRoad).rate_hz, 20);
}

TEST(Topics, RefusesAPathThatDoesNotFitASocketAddress) {
  EXPECT_EQ(*topic_path("/run/modeld", Topic::kRoad), "/run/modeld/road");
  EXPECT_FALSE(topic_path(std::string(105, 'a'), Topic::kRoad).ok());
}

TEST(ModelStates, NamesAndOrderAreTheContract) {
  const std::vector<std::string> states = {"LOADING", "SELFTEST", "WARMING",
                                           "READY",   "DEGRADED", "UNAVAILABLE"};
  ASSERT_EQ(states.size(), static_cast<size_t>(kModelStateCount));
  for (size_t i = 0; i < states.size(); ++i) {
    EXPECT_EQ(model_state_name(static_cast<ModelState>(i)), states[i]);
    EXPECT_EQ(parse_model_state(states[i]), static_cast<ModelState>(i));
  }
  const std::vector<std::string> reasons = {
      "none",        "bundle_missing",  "bundle_invalid", "target_mismatch", "compile_failed",
      "load_failed", "selftest_failed", "device_lost",    "timeout",         "non_finite",
      "input_stale", "camera_fault",    "privilege",      "config"};
  ASSERT_EQ(reasons.size(), static_cast<size_t>(kReasonCount));
  for (size_t i = 0; i < reasons.size(); ++i) {
    EXPECT_EQ(reason_name(static_cast<Reason>(i)), reasons[i]);
    EXPECT_EQ(parse_reason(reasons[i]), static_cast<Reason>(i));
  }
}

}  // namespace
}  // namespace modeld::ipc
