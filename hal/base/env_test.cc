#include "hal/base/env.h"

#include <set>

#include "hal/base/fault.h"

namespace modeld {
namespace {

TEST(Env, TableListsEveryDebugVariableWithHelp) {
  const std::string help = env_help();
  std::set<std::string> names;
  for (const EnvVar& v : env_table()) {
    EXPECT_TRUE(names.insert(v.name).second) << v.name << " twice";
    EXPECT_GT(std::string(v.help).size(), 3U) << v.name;
    const bool ours = std::string(v.name).rfind("MODELD_", 0) == 0;
    EXPECT_EQ(help.find(v.name + std::string(" ")) != std::string::npos, ours) << v.name;
  }
  for (const char* name :
       {"MODELD_DEBUG", "MODELD_DUMP", "MODELD_TRACE", "MODELD_CACHE_DIR", "MODELD_RUNTIME_DIR",
        "MODELD_SHARED", "MODELD_ASSERT_COMPILE", "MODELD_VALIDATE"})
    EXPECT_EQ(names.count(name), 1U) << name;
  EXPECT_EQ(names.count("MODELD_FAULT"), fault::kBuilt ? 1U : 0U);
}

TEST(EnvDeathTest, AskingForAnUnlistedNameIsABug) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(env_value("MODELD_NOT_IN_TABLE"), "hal/base/env.cc");
}

TEST(Env, EmptyCountsAsUnset) {
  setenv("MODELD_DUMP", "", 1);
  EXPECT_FALSE(env_value("MODELD_DUMP").has_value());
  setenv("MODELD_DUMP", "/d", 1);
  EXPECT_EQ(*env_value("MODELD_DUMP"), "/d");
  unsetenv("MODELD_DUMP");
}

TEST(Env, BadNumberCountsAsFallback) {
  setenv("MODELD_DEBUG", "loud", 1);
  EXPECT_EQ(env_int("MODELD_DEBUG"), 0);
  setenv("MODELD_DEBUG", "3", 1);
  EXPECT_EQ(env_int("MODELD_DEBUG"), 3);
  unsetenv("MODELD_DEBUG");
}

TEST(Env, FlagsReadZeroAndNoAsOff) {
  for (const auto& [text, wanted] :
       std::map<std::string, bool>{{"1", true}, {"0", false}, {"no", false}, {"yes", true}}) {
    setenv("MODELD_ASSERT_COMPILE", text.c_str(), 1);
    EXPECT_EQ(env_flag("MODELD_ASSERT_COMPILE"), wanted) << text;
  }
  unsetenv("MODELD_ASSERT_COMPILE");
  EXPECT_FALSE(env_flag("MODELD_ASSERT_COMPILE"));
}

TEST(Env, DirectoriesFollowTheDocumentedOrder) {
  setenv("HOME", "/home/x", 1);
  unsetenv("XDG_CACHE_HOME");
  unsetenv("MODELD_CACHE_DIR");
  EXPECT_EQ(cache_dir(), "/home/x/.cache/modeld");
  setenv("XDG_CACHE_HOME", "/c", 1);
  EXPECT_EQ(cache_dir(), "/c/modeld");
  setenv("MODELD_CACHE_DIR", "/own", 1);
  EXPECT_EQ(cache_dir(), "/own");
  unsetenv("XDG_RUNTIME_DIR");
  unsetenv("MODELD_RUNTIME_DIR");
  EXPECT_EQ(runtime_dir().rfind("/tmp/modeld-", 0), 0U);
  setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
  EXPECT_EQ(runtime_dir(), "/run/user/7/modeld");
  setenv("MODELD_RUNTIME_DIR", "/r", 1);
  EXPECT_EQ(runtime_dir(), "/r");
  for (const char* name :
       {"XDG_CACHE_HOME", "MODELD_CACHE_DIR", "XDG_RUNTIME_DIR", "MODELD_RUNTIME_DIR"})
    unsetenv(name);
}

}  // namespace
}  // namespace modeld
