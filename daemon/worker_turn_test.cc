#include "daemon/worker_turn.h"

namespace modeld::daemon {
namespace {

using ipc::Reason;

TEST(WorkerTurn, SelftestThenHelloThenNothing) {
  WorkerTurn t;
  EXPECT_TRUE(t.accepts(Packet::kSelftest));
  EXPECT_FALSE(t.accepts(Packet::kSelftest)) << "once";
  EXPECT_TRUE(t.accepts(Packet::kHello));
  for (const Packet p : {Packet::kSelftest, Packet::kHello, Packet::kFailure, Packet::kSetup,
                         Packet::kBuffers, static_cast<Packet>(200)})
    EXPECT_FALSE(t.accepts(p)) << static_cast<int>(p);
}

TEST(WorkerTurn, NoHelloWithoutASelftest) {
  WorkerTurn t;
  EXPECT_FALSE(t.accepts(Packet::kHello));
  EXPECT_FALSE(t.accepts(Packet::kSetup));
  EXPECT_TRUE(t.accepts(Packet::kFailure));
}

// What would end the whole daemon is believed only of our own code.
TEST(WorkerTurn, PrivilegeIsBelievedBeforeTheBundlesCodeRuns) {
  WorkerTurn cpu;
  EXPECT_EQ(cpu.believed(Reason::kPrivilege), Reason::kPrivilege);
  ASSERT_TRUE(cpu.accepts(Packet::kSelftest));
  EXPECT_EQ(cpu.believed(Reason::kPrivilege), Reason::kSelftestFailed);
  EXPECT_EQ(cpu.believed(Reason::kLoadFailed), Reason::kLoadFailed);
  WorkerTurn driver(true);
  ASSERT_TRUE(driver.accepts(Packet::kSelftest));
  EXPECT_EQ(driver.believed(Reason::kPrivilege), Reason::kPrivilege);
}

TEST(WorkerTurn, ARunHasOnlyTheReasonsOfARun) {
  for (uint8_t r = 0; r < 255; ++r) {
    const auto said = static_cast<Reason>(r);
    const bool known = said == Reason::kTimeout || said == Reason::kNonFinite ||
                       said == Reason::kInputStale || said == Reason::kCameraFault;
    EXPECT_EQ(WorkerTurn::believed_of_run(said), known ? said : Reason::kDeviceLost) << int{r};
  }
}

TEST(WorkerTurn, WordsStayOneLine) {
  EXPECT_EQ(printable("plan[3] is inf"), "plan[3] is inf");
  EXPECT_EQ(printable("a\nroad: READY\x1b[2J\xff"), "a?road: READY?[2J?");
}

}  // namespace
}  // namespace modeld::daemon
