#include "daemon/unavailable.h"

namespace modeld::daemon {
namespace {

using ipc::ModelState;
using ipc::Reason;

Result<Config> one_model() {
  return parse_config("[model.cabin]\nbundle = \"/b/cabin.bundle\"\ndevice = \"null\"\n", "c.toml");
}

ipc::ModelStatus said_of(const ServiceEnd& end) {
  const auto models = unavailable_models(end, one_model(), 42);
  EXPECT_EQ(models.size(), 1u);
  return models.empty() ? ipc::ModelStatus{} : models.front();
}

TEST(Unavailable, NamesTheConfiguredModelsWithBundleAndDevice) {
  const ipc::ModelStatus s = said_of({"core-dump", "dumped", "SEGV"});
  EXPECT_EQ(s.name, "cabin");
  EXPECT_EQ(s.state, ModelState::kUnavailable);
  EXPECT_EQ(s.since_ns, 42);
  EXPECT_EQ(s.bundle_path, "/b/cabin.bundle");
  EXPECT_EQ(s.device, "null");
  EXPECT_EQ(s.unavailable_entries, 1u);
}

TEST(Unavailable, AnUnreadableConfigurationIsTheReasonForBothRoles) {
  const auto models =
      unavailable_models({"exit-code", "exited", "78"}, parse_config("[modle]\n", "c.toml"), 1);
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].name, "road");
  EXPECT_EQ(models[1].name, "cabin");
  for (const ipc::ModelStatus& s : models) {
    EXPECT_EQ(s.state, ModelState::kUnavailable);
    EXPECT_EQ(s.reason, Reason::kConfig);
    EXPECT_THAT(s.text, ::testing::StartsWith("c.toml:1: "));
  }
}

TEST(Unavailable, EndsAreToldApart) {
  const struct {
    ServiceEnd end;
    Reason reason;
    const char* text;
  } rows[] = {
      {{"exit-code", "exited", "78"},
       Reason::kPrivilege,
       "modeld ended with exit code 78: a right it must not have, see its log"},
      {{"watchdog", "killed", "ABRT"},
       Reason::kTimeout,
       "modeld stood still and was ended by the watchdog"},
      {{"timeout", "killed", "TERM"}, Reason::kLoadFailed, "modeld was not ready in time"},
      {{"start-limit-hit", "killed", "SEGV"},
       Reason::kLoadFailed,
       "modeld was ended by signal SEGV, too often to be started again"},
      {{"oom-kill", "killed", "KILL"}, Reason::kLoadFailed, "modeld was ended: out of memory"},
      {{"exit-code", "exited", "1"},
       Reason::kLoadFailed,
       "modeld ended with exit code 1 (exit-code)"},
      {{"", "", ""}, Reason::kLoadFailed, "modeld does not run"},
  };
  for (const auto& row : rows) {
    const ipc::ModelStatus s = said_of(row.end);
    EXPECT_EQ(s.reason, row.reason) << row.text;
    EXPECT_EQ(s.text, row.text);
  }
}

TEST(Unavailable, ExitCode1AfterAReadableConfigurationIsNotPrivilege) {
  EXPECT_NE(said_of({"exit-code", "exited", "1"}).reason, Reason::kPrivilege);
  EXPECT_NE(said_of({"signal", "killed", "78"}).reason, Reason::kPrivilege);
}

}  // namespace
}  // namespace modeld::daemon
