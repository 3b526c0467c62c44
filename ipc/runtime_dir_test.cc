#include "ipc/runtime_dir.h"

#include <sys/stat.h>

#include "hal/base/fs.h"

namespace modeld::ipc {
namespace {

TEST(RuntimeDir, TheFlagWinsOverEverything) {
  setenv("MODELD_RUNTIME_DIR", "/from/env", 1);
  EXPECT_EQ(runtime_dir("/flag", "/config"), "/flag");
  EXPECT_EQ(runtime_dir("", "/config"), "/from/env");
  unsetenv("MODELD_RUNTIME_DIR");
  EXPECT_EQ(runtime_dir("", "/config"), "/config");
}

TEST(RuntimeDir, FallsBackToTheUsersOwnDirectory) {
  unsetenv("MODELD_RUNTIME_DIR");
  struct stat info {};
  if (stat("/run/modeld", &info) == 0) {
    EXPECT_EQ(runtime_dir(), "/run/modeld");
    return;
  }
  setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
  EXPECT_EQ(runtime_dir(), "/run/user/7/modeld");
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(runtime_dir(), "/tmp/modeld-" + std::to_string(getuid()));
}

TEST(RuntimeDir, IsMadePrivateAndAFileIsRefused) {
  const TempDir dir = std::move(*TempDir::create("ipc"));
  const std::string made = dir.path() + "/run";
  ASSERT_TRUE(make_runtime_dir(made).ok());
  ASSERT_TRUE(make_runtime_dir(made).ok());
  struct stat info {};
  ASSERT_EQ(stat(made.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0007, 0u);
  ASSERT_TRUE(write_text_atomic(dir.path() + "/file", "x").ok());
  EXPECT_FALSE(make_runtime_dir(dir.path() + "/file").ok());
}

}  // namespace
}  // namespace modeld::ipc
