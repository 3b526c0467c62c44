#include "ipc/consumer/gate_log.h"

namespace modeld::ipc {
namespace {

class GateLogTest : public testing::Test {
 protected:
  // One period of 50 ms, with a step of the gate at its end.
  void period(bool road_is_valid) {
    clock_.advance_ms(50);
    StateMessage state;
    state.header.time_ns = clock_.now();
    state.models.resize(2);
    state.models[0].name = "road";
    state.models[1].name = "cabin";
    for (ModelStatus& m : state.models) m.state = ModelState::kReady;
    gate_.observe(state);
    ++frame_;
    gate_.observe(output<RoadMessage>(road_is_valid));
    gate_.observe(output<CabinMessage>(true));
    step();
  }
  void step() {
    verdict_ = gate_.step();
    log_.take(gate_, verdict_);
  }
  template <class M>
  M output(bool valid) const {
    M m;
    m.header.time_ns = clock_.now();
    m.header.valid = valid;
    m.header.frame_id = frame_;
    m.timings.sof_ns = clock_.now() - 20 * kNsPerMs;
    return m;
  }
  int64_t json_number(const char* decision, const char* key) const {
    const Json json = log_.to_json(verdict_);
    const Json* const n = json.find("decisions")->find(decision)->find(key);
    return n == nullptr ? -1 : n->int_or(-2);
  }

  FakeClock clock_{100'000'000'000};
  Consumer gate_{clock_};
  GateLog log_{clock_};
  Verdict verdict_;
  uint64_t frame_ = 0;
};

TEST_F(GateLogTest, SilenceAtTheStartIsToldOnlyOnceItHasLasted) {
  EXPECT_FALSE(log_.take(gate_, gate_.step()));
  clock_.advance_ms(500);
  EXPECT_TRUE(log_.take(gate_, gate_.step()));
  EXPECT_EQ(log_.count(Decision::kNoEntry).changes, 1u);
  EXPECT_EQ(log_.last().road.received_ns, 0);
  EXPECT_EQ(log_.last().age_ns(), 0);
}

TEST_F(GateLogTest, CountsEachChangeOnce) {
  for (int i = 0; i < 4; ++i) period(true);
  period(false);
  period(false);
  for (int i = 0; i < 4; ++i) period(true);
  EXPECT_EQ(log_.count(Decision::kMayEngage).changes, 2u);
  EXPECT_EQ(log_.count(Decision::kSoftDisable).changes, 1u);
  EXPECT_EQ(log_.count(Decision::kImmediateDisable).changes, 0u);
  EXPECT_EQ(log_.disengagements(), 1u);
  EXPECT_EQ(json_number("soft disable", "changes"), 1);
  EXPECT_EQ(json_number("immediate disable", "last_valid_age_ms_max"), -1) << "never happened";
}

// Road's frame is the older one: cabin's of the same step says nothing of what was missing.
TEST_F(GateLogTest, AnExitTellsHowOldTheFrameUsedLastWas) {
  for (int i = 0; i < 4; ++i) period(true);
  const uint64_t used = frame_;
  for (int i = 0; i < 11; ++i) period(false);
  EXPECT_EQ(log_.last().verdict.decision, Decision::kImmediateDisable);
  EXPECT_EQ(log_.last().road.frame_id, used);
  EXPECT_EQ(log_.last().cabin.frame_id, frame_);
  EXPECT_EQ(json_number("soft disable", "last_valid_age_ms"), 50);
  EXPECT_EQ(json_number("immediate disable", "last_valid_age_ms"), 550);
  EXPECT_EQ(json_number("may engage", "last_valid_age_ms"), -1) << "no exit";
}

TEST_F(GateLogTest, TheLongestAgeStays) {
  for (int i = 0; i < 4; ++i) period(true);
  clock_.advance_ms(120);
  period(false);
  for (int i = 0; i < 40; ++i) period(true);
  period(false);
  EXPECT_EQ(json_number("soft disable", "changes"), 2);
  EXPECT_EQ(json_number("soft disable", "last_valid_age_ms"), 50);
  EXPECT_EQ(json_number("soft disable", "last_valid_age_ms_max"), 170);
}

TEST_F(GateLogTest, TheLogHasALimitAndTheCountsHaveNone) {
  for (size_t i = 0; i < GateLog::kMaxEntries; ++i) {
    period(true);
    period(false);
  }
  const Json json = log_.to_json(verdict_);
  EXPECT_EQ(json.find("log")->size(), GateLog::kMaxEntries);
  EXPECT_GT(log_.count(Decision::kMayEngage).changes + log_.disengagements(), GateLog::kMaxEntries);
}

TEST_F(GateLogTest, ALineSaysWhatWasUsedLast) {
  for (int i = 0; i < 4; ++i) period(true);
  period(false);
  EXPECT_EQ(log_.last().text(),
            "soft disable, because road: output is not valid (none) (last valid: road 4 50 ms ago, "
            "cabin 5 0 ms ago)");
}

}  // namespace
}  // namespace modeld::ipc
