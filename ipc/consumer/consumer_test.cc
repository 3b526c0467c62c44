#include "ipc/consumer/consumer.h"

namespace modeld::ipc {
namespace {

class Gate : public testing::Test {
 protected:
  void say_state(ModelState road,
                 ModelState cabin = ModelState::kReady,
                 Reason reason = Reason::kNone,
                 const std::string& text = "") {
    StateMessage m;
    m.header.time_ns = clock_.now();
    m.models.resize(2);
    m.models[0].name = "road";
    m.models[0].state = road;
    m.models[0].reason = reason;
    m.models[0].text = text;
    m.models[1].name = "cabin";
    m.models[1].state = cabin;
    gate_.observe(m);
  }
  template <class M>
  M output(bool valid, bool degraded = false) {
    M m;
    m.header.time_ns = clock_.now();
    m.header.valid = valid;
    m.header.degraded = degraded;
    m.header.frame_id = frame_;
    m.timings.sof_ns = clock_.now() - 20 * kNsPerMs;
    return m;
  }
  void say_outputs(bool road_valid = true, bool cabin_valid = true, bool degraded = false) {
    ++frame_;
    gate_.observe(output<RoadMessage>(road_valid, degraded));
    gate_.observe(output<CabinMessage>(cabin_valid));
  }
  // As a daemon that is well: state, outputs, a step; every 50 ms.
  void drive(int frames) {
    for (int i = 0; i < frames; ++i) {
      clock_.advance_ms(50);
      say_state(ModelState::kReady);
      say_outputs();
      verdict_ = gate_.step();
    }
  }
  void engage() {
    drive(3);
    ASSERT_TRUE(verdict_.may_engage()) << verdict_.because;
  }
  void expect(Decision decision, const std::string& why) {
    verdict_ = gate_.step();
    EXPECT_STREQ(decision_name(verdict_.decision), decision_name(decision)) << verdict_.because;
    EXPECT_THAT(verdict_.because, testing::HasSubstr(why));
  }

  FakeClock clock_{100'000'000'000};
  Consumer gate_{clock_};
  Verdict verdict_;
  uint64_t frame_ = 0;
};

TEST_F(Gate, NothingSeenIsNoEntryAndNothingToDisengage) {
  expect(Decision::kNoEntry, "no state message");
  EXPECT_FALSE(verdict_.must_disengage());
  say_outputs();
  expect(Decision::kNoEntry, "no state message");
}

TEST_F(Gate, NeverReceivedOutputsAreNotDefaults) {
  say_state(ModelState::kReady);
  expect(Decision::kNoEntry, "road: no output message seen");
}

TEST_F(Gate, ReadyAndValidAtTheRightRateMayEngage) {
  say_state(ModelState::kReady);
  say_outputs();
  expect(Decision::kNoEntry, "road: outputs come at");  // no interval yet: the rate is unknown
  clock_.advance_ms(50);
  say_outputs();
  expect(Decision::kMayEngage, "");
}

TEST_F(Gate, EveryOtherStateRefusesAndSaysWhy) {
  say_outputs();
  for (const ModelState state :
       {ModelState::kLoading, ModelState::kSelftest, ModelState::kWarming}) {
    say_state(state);
    expect(Decision::kNoEntry, model_state_name(state));
  }
  say_state(ModelState::kUnavailable, ModelState::kReady, Reason::kNonFinite, "output 3 is nan");
  expect(Decision::kNoEntry, "road: UNAVAILABLE(non_finite): output 3 is nan");
  say_state(ModelState::kReady, ModelState::kUnavailable);
  expect(Decision::kNoEntry, "cabin: UNAVAILABLE");
}

TEST_F(Gate, AnInvalidOutputIsASoftDisableAtOnceAndAnImmediateOneAfterHalfASecond) {
  engage();
  int waited = 0;
  for (; waited < 1000; waited += 10) {
    if (waited % 50 == 0) {
      say_state(ModelState::kUnavailable, ModelState::kReady, Reason::kTimeout, "no answer");
      say_outputs(false, true);
    }
    const Verdict v = gate_.step();
    if (v.decision == Decision::kImmediateDisable) break;
    EXPECT_EQ(v.decision, Decision::kSoftDisable) << v.because;
    EXPECT_THAT(v.because, testing::HasSubstr("UNAVAILABLE(timeout)"));
    clock_.advance_ms(10);
  }
  // The last valid output is 0.5 s old and no older.
  EXPECT_EQ(waited, 510);
  expect(Decision::kNoEntry, "UNAVAILABLE(timeout)");
}

TEST_F(Gate, OneInvalidOutputIsTakenBack) {
  engage();
  clock_.advance_ms(50);
  say_outputs(false, true);
  expect(Decision::kSoftDisable, "road: output is not valid");
  drive(1);
  EXPECT_TRUE(verdict_.may_engage()) << verdict_.because;
}

TEST_F(Gate, SilenceIsAnImmediateDisableAfterHalfASecond) {
  engage();
  clock_.advance_ms(500);
  expect(Decision::kMayEngage, "");
  clock_.advance_ms(1);
  expect(Decision::kImmediateDisable, "last state message is 501 ms old");
  expect(Decision::kNoEntry, "last state message");
}

TEST_F(Gate, OutputsThatStopWhileTheStateGoesOnAreNotHeld) {
  engage();
  clock_.advance_ms(501);
  say_state(ModelState::kReady);
  expect(Decision::kImmediateDisable, "road: last output is 501 ms old");
}

TEST_F(Gate, AnOutputThatWasDelayedOnTheWayIsOld) {
  engage();
  clock_.advance_ms(50);
  say_state(ModelState::kReady);
  say_outputs();
  RoadMessage road = output<RoadMessage>(true);
  road.header.time_ns -= 600 * kNsPerMs;
  gate_.observe(road);
  expect(Decision::kSoftDisable, "sent 600 ms ago");
}

TEST_F(Gate, AnOutputOfAnotherClockIsRefused) {
  engage();
  RoadMessage road = output<RoadMessage>(true);
  road.header.time_ns += 3600 * kNsPerSecond;
  gate_.observe(road);
  expect(Decision::kSoftDisable, "dated 3600000 ms ahead");
}

TEST_F(Gate, AnOutputOfAnOldFrameIsOldHoweverFreshItsMessage) {
  engage();
  ++frame_;
  RoadMessage road = output<RoadMessage>(true);
  road.timings.sof_ns = clock_.now() - 700 * kNsPerMs;
  gate_.observe(road);
  expect(Decision::kSoftDisable, "of a frame that began 700 ms ago");
}

TEST_F(Gate, ARepeatedFrameIsNoNewOutput) {
  engage();
  for (int i = 0; i < 11; ++i) {
    clock_.advance_ms(50);
    say_state(ModelState::kReady);
    gate_.observe(output<RoadMessage>(true));
    ++frame_;
    gate_.observe(output<CabinMessage>(true));
    --frame_;
    verdict_ = gate_.step();
  }
  EXPECT_EQ(verdict_.decision, Decision::kImmediateDisable) << verdict_.because;
  EXPECT_THAT(verdict_.because, testing::HasSubstr("road: output repeats frame"));
}

// Two frames that come again and again: each differs from the one before it.
TEST_F(Gate, FramesThatTakeTurnsAreNoNewOutputs) {
  engage();
  clock_.advance_ms(50);
  RoadMessage turns[] = {output<RoadMessage>(true), output<RoadMessage>(true)};
  turns[0].header.frame_id = 5;
  turns[1].header.frame_id = 4;
  turns[1].timings.sof_ns -= 50 * kNsPerMs;
  for (int i = 0; i < 12; ++i) {
    if (i > 0) clock_.advance_ms(50);
    say_state(ModelState::kReady);
    RoadMessage& road = turns[i % 2];
    road.header.time_ns = clock_.now();
    gate_.observe(road);
    ++frame_;
    gate_.observe(output<CabinMessage>(true));
    verdict_ = gate_.step();
    if (i == 1) {
      EXPECT_THAT(verdict_.because,
                  testing::HasSubstr(
                      "road: output is of frame 4, which began 50 ms before the last one (5)"));
    }
  }
  EXPECT_FALSE(verdict_.may_engage());
}

TEST_F(Gate, FramesOfACameraThatStartedAgainAreNew) {
  engage();
  clock_.advance_ms(50);
  frame_ = 0;
  say_state(ModelState::kReady);
  say_outputs();
  expect(Decision::kMayEngage, "");
}

TEST_F(Gate, AFrameOfAnotherClockIsRefused) {
  engage();
  clock_.advance_ms(50);
  ++frame_;
  RoadMessage road = output<RoadMessage>(true);
  road.timings.sof_ns += 3600 * kNsPerSecond;
  gate_.observe(road);
  gate_.observe(output<CabinMessage>(true));
  expect(Decision::kSoftDisable, "of a frame dated 3599980 ms ahead");
  drive(1);  // and it does not stand in the way of those that follow
  EXPECT_TRUE(verdict_.may_engage()) << verdict_.because;
}

TEST_F(Gate, AStateMessageThatWasDelayedOnTheWayIsOld) {
  engage();
  StateMessage late;
  late.header.time_ns = clock_.now() - 600 * kNsPerMs;
  gate_.observe(late);
  expect(Decision::kSoftDisable, "state message was sent 600 ms ago");
  for (int i = 0; i < 11; ++i) {
    clock_.advance_ms(50);
    late.header.time_ns += 50 * kNsPerMs;
    gate_.observe(late);
    say_outputs();
  }
  expect(Decision::kImmediateDisable, "state message was sent 600 ms ago");
}

TEST_F(Gate, AStateMessageOfAnotherClockIsRefused) {
  StateMessage other;
  other.header.time_ns = clock_.now() + 3600 * kNsPerSecond;
  gate_.observe(other);
  expect(Decision::kNoEntry, "state message is dated 3600000 ms ahead");
}

TEST_F(Gate, ARateOutsideSixteenToTwentyFourHertzIsASoftDisableThatRunsOut) {
  engage();
  int64_t soft_ms = 0;
  for (int i = 0; i < 100 && verdict_.decision != Decision::kImmediateDisable; ++i) {
    clock_.advance_ms(100);
    say_state(ModelState::kReady);
    say_outputs();
    verdict_ = gate_.step();
    if (verdict_.decision == Decision::kSoftDisable) {
      soft_ms += 100;
      EXPECT_THAT(verdict_.because, testing::HasSubstr("outputs come at"));
    }
  }
  EXPECT_EQ(verdict_.decision, Decision::kImmediateDisable);
  EXPECT_THAT(verdict_.because, testing::HasSubstr("3 s of soft disable are over"));
  EXPECT_EQ(soft_ms, 3000);
}

TEST_F(Gate, OneSlowSecondIsForgivenWhenTenWereFine) {
  drive(200);
  for (int i = 0; i < 15; ++i) {
    clock_.advance_ms(70);
    say_state(ModelState::kReady);
    say_outputs();
    EXPECT_TRUE(gate_.step().may_engage());
  }
}

TEST_F(Gate, MoreThanOnePercentOfLostFramesIsASoftDisable) {
  engage();
  clock_.advance_ms(50);
  ++frame_;
  RoadMessage road = output<RoadMessage>(true);
  road.frame_drop_percent = 0.985F;
  gate_.observe(road);
  expect(Decision::kMayEngage, "");
  clock_.advance_ms(50);
  ++frame_;
  road = output<RoadMessage>(true);
  road.frame_drop_percent = 1.47F;
  gate_.observe(road);
  expect(Decision::kSoftDisable, "1.5 % of the frames are lost");
}

TEST_F(Gate, AModelMissingFromTheStateIsUnavailable) {
  engage();
  StateMessage only_cabin;
  only_cabin.header.time_ns = clock_.now();
  only_cabin.models.resize(1);
  only_cabin.models[0].name = "cabin";
  only_cabin.models[0].state = ModelState::kReady;
  gate_.observe(only_cabin);
  expect(Decision::kSoftDisable, "road: not in the state message");
}

TEST_F(Gate, TheSwitchToDegradedSoftDisablesExactlyOnce) {
  engage();
  say_state(ModelState::kDegraded, ModelState::kReady, Reason::kDeviceLost);
  expect(Decision::kSoftDisable, "road: switched to DEGRADED (device_lost)");
  clock_.advance_ms(50);
  say_outputs(true, true, true);
  expect(Decision::kMayEngage, "");
  drive(1);
  clock_.advance_ms(50);
  say_outputs(true, true, true);
  expect(Decision::kSoftDisable, "switched to DEGRADED");
}

TEST_F(Gate, AModelThatIsNotNeededDoesNotCount) {
  Consumer road_only(clock_, true, false);
  StateMessage m;
  m.header.time_ns = clock_.now();
  m.models.resize(1);
  m.models[0].name = "road";
  m.models[0].state = ModelState::kReady;
  road_only.observe(m);
  for (int i = 0; i < 2; ++i) {
    clock_.advance_ms(50);
    ++frame_;
    road_only.observe(output<RoadMessage>(true));
  }
  EXPECT_TRUE(road_only.step().may_engage());
  EXPECT_EQ(road_only.step().because, "road outputs are alive, valid and fresh");
  EXPECT_EQ(road_only.last_valid_road().frame_id, frame_);
}

}  // namespace
}  // namespace modeld::ipc
