#include "daemon/drop_filter.h"

namespace modeld::daemon {
namespace {

constexpr int kFreeRuns = 10;

// Runs frames without loss, then one after `lost` frames that never came.
double after_losing(uint64_t lost) {
  DropFilter f;
  uint64_t id = 100;
  for (int i = 0; i < kFreeRuns; ++i) f.run(id++);
  f.run(id + lost);
  return f.percent();
}

TEST(DropFilter, PercentagesOfLostFrames) {
  EXPECT_NEAR(after_losing(0), 0, 1e-12);
  EXPECT_NEAR(after_losing(1), 0.495, 5e-4);
  EXPECT_NEAR(after_losing(2), 0.985, 5e-4);
  EXPECT_NEAR(after_losing(3), 1.47, 5e-3);
  EXPECT_NEAR(after_losing(10), 4.7, 5e-2);
  EXPECT_EQ(after_losing(1000), after_losing(10));
}

TEST(DropFilter, ThreeLostFramesAreBelowOnePercentAgainAfterFourSeconds) {
  DropFilter f;
  uint64_t id = 0;
  for (int i = 0; i < kFreeRuns; ++i) f.run(id++);
  f.run(id + 3);
  id += 4;
  int runs = 0;
  for (; f.percent() > 1; ++runs) f.run(id++);
  EXPECT_NEAR(runs * 0.05, 3.9, 0.1);
}

TEST(DropFilter, AStartOrAResetIsNoLag) {
  DropFilter f;
  for (uint64_t id = 0; id < 10; ++id) f.run(id * 5);
  EXPECT_EQ(f.percent(), 0);
  f.run(100);
  EXPECT_GT(f.percent(), 1);
  f.reset();
  f.run(1000);
  EXPECT_EQ(f.percent(), 0);
}

TEST(DropFilter, IdsThatGoBackCountNothing) {
  DropFilter f;
  for (uint64_t id = 50; id < 61; ++id) f.run(id);
  f.run(3);
  EXPECT_EQ(f.percent(), 0);
}

}  // namespace
}  // namespace modeld::daemon
