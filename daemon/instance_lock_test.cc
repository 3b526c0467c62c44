#include "daemon/instance_lock.h"

#include <unistd.h>

#include "hal/base/fs.h"

namespace modeld::daemon {
namespace {

TEST(InstanceLock, TheSecondIsToldThePidOfTheFirst) {
  const auto dir = TempDir::create("lock");
  ASSERT_TRUE(dir.ok());
  const auto first = lock_instance(dir->path(), "modeld");
  ASSERT_TRUE(first.ok()) << first.error().what;
  const auto second = lock_instance(dir->path(), "modeld-unavailable");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Errc::kBusy);
  EXPECT_EQ(second.error().what, "modeld-unavailable: another one runs in " + dir->path() +
                                     ", pid " + std::to_string(getpid()));
}

TEST(InstanceLock, ClosingTheDescriptorFreesIt) {
  const auto dir = TempDir::create("lock");
  ASSERT_TRUE(dir.ok());
  {
    const auto first = lock_instance(dir->path(), "modeld");
    ASSERT_TRUE(first.ok());
  }
  EXPECT_TRUE(lock_instance(dir->path(), "modeld").ok());
}

TEST(InstanceLock, ADirectoryThatIsNotThereIsNamed) {
  const auto lock = lock_instance("/nonexistent/run", "modeld");
  ASSERT_FALSE(lock.ok());
  EXPECT_EQ(lock.error().what, "modeld: /nonexistent/run/modeld.lock: No such file or directory");
}

}  // namespace
}  // namespace modeld::daemon
