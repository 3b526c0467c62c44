#include "daemon/state_machine.h"

namespace modeld::daemon {
namespace {

constexpr Standing kLoading{ModelState::kLoading, Reason::kNone};
constexpr Standing kSelftest{ModelState::kSelftest, Reason::kNone};
constexpr Standing kWarming{ModelState::kWarming, Reason::kNone};
constexpr Standing kReady{ModelState::kReady, Reason::kNone};
constexpr Standing kDegraded{ModelState::kDegraded, Reason::kTimeout};

Standing unavailable(Reason r) {
  return {ModelState::kUnavailable, r};
}

struct Row {
  Standing from;
  Event event;
  Reason reason;
  bool full;
  Standing to;
};

TEST(StateMachine, Table) {
  const Row rows[] = {
      {kLoading, Event::kSelftest, Reason::kNone, false, kSelftest},
      {kSelftest, Event::kWarm, Reason::kNone, false, kWarming},
      {kWarming, Event::kAccepted, Reason::kNone, false, kWarming},
      {kWarming, Event::kAccepted, Reason::kNone, true, kReady},
      {kReady, Event::kAccepted, Reason::kNone, true, kReady},
      {kReady, Event::kLateTooOften, Reason::kTimeout, false, kDegraded},
      {kDegraded, Event::kLateFine, Reason::kNone, false, kReady},
      {kDegraded, Event::kAccepted, Reason::kNone, true, kDegraded},
      {kWarming, Event::kLateTooOften, Reason::kTimeout, false, kWarming},
      {kWarming, Event::kSelftest, Reason::kNone, false, kWarming},
      {kReady, Event::kWarm, Reason::kNone, false, kReady},
      {kLoading, Event::kAccepted, Reason::kNone, true, kLoading},
      {unavailable(Reason::kNonFinite), Event::kAccepted, Reason::kNone, false, kWarming},
      {unavailable(Reason::kNonFinite), Event::kAccepted, Reason::kNone, true, kWarming},
      {unavailable(Reason::kTimeout),
       Event::kWorkerStarted,
       Reason::kNone,
       false,
       {ModelState::kLoading, Reason::kTimeout}},
  };
  for (const Row& r : rows)
    EXPECT_EQ(next(r.from, r.event, r.reason, r.full).to, r.to) << static_cast<int>(r.event);
}

TEST(StateMachine, EveryFaultLeadsToUnavailableWithItsReasonFromEveryState) {
  for (const Standing& from : {kLoading, kSelftest, kWarming, kReady, kDegraded}) {
    for (int i = 1; i < ipc::kReasonCount; ++i) {
      const auto reason = static_cast<Reason>(i);
      const Step s = next(from, Event::kFault, reason);
      EXPECT_EQ(s.to, unavailable(reason));
      EXPECT_TRUE(s.actions & kStartHeartbeats);
      EXPECT_TRUE(s.actions & kCountUnavailable);
      EXPECT_TRUE(s.actions & kResetModel);
      EXPECT_EQ((s.actions & kStopWorker) != 0, !worker_survives(reason))
          << ipc::reason_name(reason);
    }
  }
}

TEST(StateMachine, RepeatedFaultIsOneEntry) {
  const Step again = next(unavailable(Reason::kNonFinite), Event::kFault, Reason::kNonFinite);
  EXPECT_EQ(again.to, unavailable(Reason::kNonFinite));
  EXPECT_FALSE(again.actions & (kStartHeartbeats | kCountUnavailable));
}

TEST(StateMachine, InputFaultsDoNotHideAGraverReason) {
  EXPECT_EQ(next(unavailable(Reason::kTimeout), Event::kFault, Reason::kCameraFault).to,
            unavailable(Reason::kTimeout));
  EXPECT_EQ(next(unavailable(Reason::kCameraFault), Event::kFault, Reason::kTimeout).to,
            unavailable(Reason::kTimeout));
}

TEST(StateMachine, AnInputFaultReplacesAnotherWithoutBeingAnEntry) {
  const Step step = next(unavailable(Reason::kInputStale), Event::kFault, Reason::kCameraFault);
  EXPECT_EQ(step.to, unavailable(Reason::kCameraFault));
  EXPECT_FALSE(step.actions & (kStartHeartbeats | kCountUnavailable | kStopWorker));
}

TEST(StateMachine, ReadyIsReachedOnlyByAcceptedFramesOrFineTiming) {
  const Reason kAnyReason = Reason::kTimeout;
  for (int s = 0; s < ipc::kModelStateCount; ++s) {
    for (int e = 0; e < kEventCount; ++e) {
      const Standing from{static_cast<ModelState>(s), Reason::kNone};
      const auto event = static_cast<Event>(e);
      const Step step = next(from, event, kAnyReason, true);
      if (step.to.state == ModelState::kReady && from.state != ModelState::kReady) {
        EXPECT_TRUE(event == Event::kAccepted || event == Event::kLateFine);
      }
    }
  }
}

}  // namespace
}  // namespace modeld::daemon
