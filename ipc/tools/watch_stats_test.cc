#include "ipc/tools/watch_stats.h"

#include <limits>

#include "hal/base/clock.h"

namespace modeld::ipc {
namespace {

// Ten seconds of a healthy daemon; tests spoil one thing at a time.
class Watch : public testing::Test {
 protected:
  void SetUp() override {
    state_.models.resize(2);
    state_.models[0].name = "road";
    state_.models[1].name = "cabin";
    for (ModelStatus& model : state_.models) model.state = ModelState::kReady;
  }
  void run(int frames = 201) {
    for (int i = 0; i < frames; ++i) {
      RoadMessage road;
      road.header.valid = !(i >= invalid_from_ && i < invalid_to_);
      road.header.simulated = simulated_;
      road.header.sequence = static_cast<uint64_t>(i);
      road.header.time_ns = start_ + i * period_ns_;
      road.timings.previous_latency_ns = i == 0 ? 0 : latency_ns_ + i;
      road.plan.mean[3] = constant_ ? 1.0f : static_cast<float>(i);
      if (i == nan_at_) road.meta[5] = std::numeric_limits<float>::quiet_NaN();
      stats_.observe(road);
      CabinMessage cabin;
      cabin.header = road.header;
      cabin.header.valid = true;
      cabin.timings = road.timings;
      cabin.lhd.face_prob = static_cast<float>(i);
      stats_.observe(cabin);
      end_ = road.header.time_ns;
    }
    stats_.observe(state_);
  }
  void expect_broken(const std::string& why) {
    const Status status = stats_.require(end_);
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().what, testing::HasSubstr(why));
  }

  WatchStats stats_;
  StateMessage state_;
  int64_t start_ = kNsPerSecond;
  int64_t period_ns_ = 50 * kNsPerMs;
  int64_t latency_ns_ = 12 * kNsPerMs;
  int64_t end_ = 0;
  int invalid_from_ = 0, invalid_to_ = 0, nan_at_ = -1;
  bool simulated_ = false, constant_ = false;
};

TEST_F(Watch, AHealthyRunPassesAndTheSummaryHasItsKeysInOrder) {
  run();
  const Status status = stats_.require(end_);
  EXPECT_TRUE(status.ok()) << status.error().what;
  EXPECT_EQ(
      stats_.summary(end_).dump(),
      "{\"frames\":201,\"road_hz\":20.0,\"cabin_hz\":20.0,\"road_ms_p50\":12.0,\"road_ms_p99\":12."
      "0,\"cabin_ms_p50\":12.0,"
      "\"cabin_ms_p99\":12.0,\"state\":\"READY\",\"unavailable_events\":0,\"simulated\":false}");
}

TEST_F(Watch, NothingSeenIsBroken) {
  expect_broken("0 models");
}

TEST_F(Watch, ASlowModelIsBroken) {
  period_ns_ = 54 * kNsPerMs;
  run();
  expect_broken("road runs at 18.5");
}

TEST_F(Watch, InvalidMessagesDoNotCountForTheRate) {
  invalid_from_ = 50;
  invalid_to_ = 70;
  run();
  EXPECT_EQ(stats_.road().valid(), 181u);
  expect_broken("road runs at 18.00 Hz");
}

TEST_F(Watch, SilenceAtTheEndLowersTheRate) {
  run();
  EXPECT_NEAR(stats_.road().rate_hz(end_ + 10 * kNsPerSecond), 10.0, 0.01);
}

TEST_F(Watch, ALateTailIsBrokenAndAMissingLatencyToo) {
  latency_ns_ = 50 * kNsPerMs;
  run();
  expect_broken("road p99 is 50.000 ms");
  stats_ = WatchStats();
  latency_ns_ = -1000;
  run();
  expect_broken("p99 is 0.000 ms");
}

TEST_F(Watch, SimulatedDevicesNeedNoSpeed) {
  simulated_ = true;
  period_ns_ = kNsPerSecond;
  latency_ns_ = 900 * kNsPerMs;
  run();
  EXPECT_TRUE(stats_.require(end_).ok());
  EXPECT_TRUE(stats_.simulated());
}

TEST_F(Watch, OutputsThatStandStillAreBroken) {
  constant_ = true;
  run();
  expect_broken("road outputs do not change");
}

TEST_F(Watch, AValidMessageWithANanIsBroken) {
  nan_at_ = 100;
  run();
  expect_broken("road: 1 valid messages are not finite");
}

TEST_F(Watch, AModelThatIsNotReadyOrWasUnavailableIsBroken) {
  state_.models[1].state = ModelState::kUnavailable;
  state_.models[1].reason = Reason::kTimeout;
  state_.models[0].unavailable_after_ready = 2;
  run();
  expect_broken("cabin is UNAVAILABLE(timeout)");
  expect_broken("2 unavailable events");
  EXPECT_EQ(stats_.overall_state(), "UNAVAILABLE");
}

TEST_F(Watch, PercentilesAreNearestRank) {
  OutputStats stats;
  Header header;
  header.valid = true;
  for (uint64_t i = 0; i <= 100; ++i) {
    header.sequence = i;
    Timings timings;
    timings.previous_latency_ns = static_cast<int64_t>(i) * kNsPerMs;
    stats.observe(header, timings, i, true);
  }
  EXPECT_EQ(stats.latency_ms(50), 50.0);
  EXPECT_EQ(stats.latency_ms(99), 99.0);
}

TEST_F(Watch, ALostMessageDoesNotLendItsLatencyToAnInvalidOne) {
  OutputStats stats;
  Header header;
  Timings timings;
  timings.previous_latency_ns = 7 * kNsPerMs;
  header.valid = true;
  stats.observe(header, timings, 1, true);
  header.sequence = 5;  // 1 to 4 were lost
  stats.observe(header, timings, 2, true);
  EXPECT_EQ(stats.latency_ms(99), 0.0);
}

}  // namespace
}  // namespace modeld::ipc
