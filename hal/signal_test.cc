#include "hal/signal.h"

#include <thread>

namespace modeld::hal {
namespace {

struct Fixture {
  std::shared_ptr<SignalSlot> slot = std::make_shared<SignalSlot>();
  Signal signal{slot.get(), slot};
};

TEST(Signal, SatisfiedWaitsReturnAtOnce) {
  Fixture f;
  f.signal.set(5);
  EXPECT_TRUE(f.signal.wait(5, Deadline{0}).ok());
  EXPECT_TRUE(f.signal.wait(4, Deadline{0}).ok());
}

TEST(Signal, UnsatisfiedWaitEndsAtTheDeadline) {
  Fixture f;
  f.signal.set(5);
  const int64_t start = now_ns();
  const Status s = f.signal.wait(6, Deadline::in_ms(20));
  const int64_t took_ns = now_ns() - start;
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Errc::kTimeout);
  EXPECT_EQ(s.error().what, "signal: waited for 6, value is 5");
  EXPECT_GE(took_ns, 20 * kNsPerMs);
  EXPECT_LT(took_ns, 10 * kNsPerSecond);
}

TEST(Signal, SetWakesASleeper) {
  Fixture f;
  std::thread setter([&f] {
    while (f.slot->waiters == 0) std::this_thread::yield();
    f.signal.set(1);
  });
  EXPECT_TRUE(f.signal.wait(1, Deadline::in_ms(30'000)).ok());
  setter.join();
  EXPECT_EQ(f.slot->waiters, 0U);
}

TEST(Signal, StopEndsAWait) {
  SignalSlot slot;
  const std::atomic<uint32_t> stop{1};
  EXPECT_FALSE(wait_slot(slot, 1, Deadline::in_ms(5000), &stop));
}

TEST(Signal, ValuesNearTheOldLimitCompareAs64Bits) {
  Fixture f;
  f.signal.set((uint64_t{1} << 32) + 1);
  EXPECT_TRUE(f.signal.wait(0xffffffff, Deadline{0}).ok());
  EXPECT_FALSE(f.signal.wait((uint64_t{1} << 32) + 2, Deadline{0}).ok());
}

}  // namespace
}  // namespace modeld::hal
