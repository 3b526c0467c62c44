#include "daemon/device_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hal/base/fs.h"

#include "daemon/worker_process.h"

namespace modeld::daemon {
namespace {

class DeviceLockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::create("lock");
    ASSERT_TRUE(dir.ok());
    dir_ = std::make_unique<TempDir>(std::move(*dir));
    stem_ = dir_->path() + "/road";
  }
  std::unique_ptr<TempDir> dir_;
  std::string stem_;
};

TEST_F(DeviceLockTest, TheSecondLearnsWhoHoldsIt) {
  auto first = lock_device(stem_, "qcom:/dev/kgsl-3d0");
  ASSERT_TRUE(first.ok()) << first.error().what;
  name_holder(*first, 4711);
  const auto second = lock_device(stem_, "qcom:/dev/kgsl-3d0");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Errc::kBusy);
  EXPECT_EQ(second.error().what,
            "device qcom:/dev/kgsl-3d0 is held by a worker that does not end, pid 4711");
  // Another device and another unit are free.
  EXPECT_TRUE(lock_device(stem_, "amd:usb").ok());
  EXPECT_TRUE(lock_device(stem_ + "-fallback", "qcom:/dev/kgsl-3d0").ok());
}

TEST_F(DeviceLockTest, AChildThatInheritedItHoldsItWithoutItsParent) {
  auto lock = lock_device(stem_, "cl");
  ASSERT_TRUE(lock.ok());
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  lock->reset();
  EXPECT_FALSE(lock_device(stem_, "cl").ok());
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(lock_device(stem_, "cl").ok());
}

TEST_F(DeviceLockTest, NoSecondWorkerIsStartedOnADeviceThatIsHeld) {
  UniqueFd exe(open("/proc/self/exe", O_PATH | O_CLOEXEC));
  auto worker = WorkerProcess::create(exe.get(), stem_);
  ASSERT_TRUE(worker.ok());
  auto held = lock_device(stem_, "cl");
  ASSERT_TRUE(held.ok());
  name_holder(*held, 4711);
  WorkerSetup setup;
  setup.device = "cl";
  const Status refused = (*worker)->start(setup);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kBusy);
  EXPECT_NE(refused.error().what.find("pid 4711"), std::string::npos) << refused.error().what;
  EXPECT_FALSE((*worker)->is_alive());
}

// What the next test starts as a worker: this program with this test alone.
TEST(DeviceLockHolder, DISABLED_Waits) {
  usleep(30'000'000);
}

TEST_F(DeviceLockTest, AStartedWorkerHoldsItUntilItEnds) {
  UniqueFd exe(open("/proc/self/exe", O_PATH | O_CLOEXEC));
  ASSERT_TRUE(exe.is_open());
  setenv("GTEST_FILTER", "DeviceLockHolder.*", 1);
  setenv("GTEST_ALSO_RUN_DISABLED_TESTS", "1", 1);
  auto worker = WorkerProcess::create(exe.get(), stem_);
  ASSERT_TRUE(worker.ok());
  WorkerSetup setup;
  setup.device = "cl";
  const Status started = (*worker)->start(setup);
  unsetenv("GTEST_FILTER");
  unsetenv("GTEST_ALSO_RUN_DISABLED_TESTS");
  ASSERT_TRUE(started.ok()) << started.error().what;
  const int pid = (*worker)->pid();
  const auto second = lock_device(stem_, "cl");
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().what.find("pid " + std::to_string(pid)), std::string::npos)
      << second.error().what;
  (*worker)->kill();
  WorkerEvent event;
  const Deadline end = Deadline::in_ns(10 * kNsPerSecond);
  while (!end.has_passed() && (*worker)->is_alive()) (*worker)->poll(event);
  ASSERT_FALSE((*worker)->is_alive());
  EXPECT_TRUE(lock_device(stem_, "cl").ok());
}

}  // namespace
}  // namespace modeld::daemon
