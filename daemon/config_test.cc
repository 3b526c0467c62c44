#include "daemon/config.h"

namespace modeld::daemon {
namespace {

constexpr const char* kGood = R"(
runtime_dir = "/run/modeld"
user = "modeld"
[camera]
socket = "camera.sock"
[model.road]
bundle = "/var/lib/modeld/road.bundle"
device = "cpu"
cpus = [0, 1]
late_ms = 40
[model.cabin]
bundle = "/var/lib/modeld/cabin.bundle"
[trust]
keys = "/etc/modeld/keys.d"
require_signature = true
[publish]
raw = true
[flight]
dir = "/var/lib/modeld/flight"
limit_mb = 8
)";

TEST(Config, ReadsEveryKeyAndFillsDefaults) {
  auto c = parse_config(kGood, "modeld.toml");
  ASSERT_TRUE(c.ok()) << c.error().what;
  EXPECT_EQ(c->runtime_dir, "/run/modeld");
  EXPECT_EQ(c->user, "modeld");
  ASSERT_EQ(c->models.size(), 2U);
  EXPECT_EQ(c->models[0].name, "road");
  EXPECT_EQ(c->models[0].prepare, "missing");
  EXPECT_EQ(c->models[0].late_ms, 40);
  EXPECT_EQ(c->models[0].timeout_ms, 150);
  EXPECT_EQ(c->models[0].cpus, (std::vector<int>{0, 1}));
  EXPECT_EQ(c->models[1].prepare, "never");
  EXPECT_TRUE(c->require_signature);
  EXPECT_TRUE(c->publish_raw);
  EXPECT_EQ(c->flight_dir, "/var/lib/modeld/flight");
  EXPECT_EQ(c->flight_limit_mb, 8);
  EXPECT_EQ(c->flight_runs, 20);
}

TEST(Config, SimulatedDevicesGetALongTimeout) {
  auto c = parse_config("[model.road]\nbundle='r'\ndevice='qcom:sim'\n", "f");
  ASSERT_TRUE(c.ok());
  EXPECT_EQ(c->models[0].timeout_ms, 60000);
}

struct Bad {
  const char* text;
  const char* says;  // parts of the one line, in order
};

TEST(Config, EachMistakeIsOneLineNamingFileLineKeyAndValue) {
  const Bad rows[] = {
      {"[model.road]\nbundle='r'\nlate=3\n",
       "f:3: key 'model.road.late' is not a key this program knows (bundle, device, "},
      {"[model.road]\nbundle=3\n", "f:2: key 'model.road.bundle' must be text, is 3"},
      {"[model.road]\nbundle='r'\nlate_ms='x'\n",
       "f:3: key 'model.road.late_ms' must be a whole number, is \"x\""},
      {"[model.road]\nbundle='r'\ntimeout_ms=0\n",
       "f:3: key 'model.road.timeout_ms' must lie in [1, 600000], is 0"},
      {"[model.road]\nbundle='r'\nprepare='maybe'\n",
       "f:3: key 'model.road.prepare' must be missing or never, is \"maybe\""},
      {"[model.road]\nbundle='r'\ncpus=[0,-1]\n", "f:3: key 'model.road.cpus'"},
      {"\n[model.road]\ndevice='cpu'\n", "f:2: key 'model.road.bundle' is missing"},
      {"\nmodel.road.device='cpu'\n", "f:2: key 'model.road.bundle' is missing"},
      {"[model.road]\nbundle=''\n", "f:2: key 'model.road.bundle' is empty"},
      {"[model.road]\nbundel='r'\n", "f:2: key 'model.road.bundel' is not a key"},
      {"[model.side]\nbundle='r'\n", "key 'model.side'"},
      {"speed=3\n",
       "f:1: key 'speed' is not a key this program knows (runtime_dir, user, camera, trust, "
       "publish, "
       "flight, model), is 3"},
      {"[publish]\nraw=1\n[model.road]\nbundle='r'\n",
       "f:2: key 'publish.raw' must be true or false, is 1"},
      {"[model]\nroad=3\n", "f:2: key 'model.road' must be a table, is 3"},
      {"[model.road\n", "f:1: not TOML"},
      {"", "no model to run"},
      {"[model.road]\nbundle='r'\nlate_ms=200\n",
       "f:3: key 'model.road.late_ms' must not be above timeout_ms 150, is 200"},
      {"[model.road]\nbundle='r'\ntimeout_ms=10\n",
       "f:3: key 'model.road.timeout_ms' must not be below late_ms 50, is 10"},
  };
  for (const Bad& b : rows) {
    auto c = parse_config(b.text, "f");
    ASSERT_FALSE(c.ok()) << b.text;
    EXPECT_NE(c.error().what.find(b.says), std::string::npos)
        << b.text << "\nsays: " << c.error().what;
    EXPECT_EQ(c.error().what.find('\n'), std::string::npos) << c.error().what;
  }
}

TEST(Config, AHugeValueDoesNotMakeAHugeLine) {
  auto c =
      parse_config("[model.road]\nbundle='r'\nprepare='" + std::string(100000, 'x') + "'\n", "f");
  ASSERT_FALSE(c.ok());
  EXPECT_LT(c.error().what.size(), 1100U);
}

TEST(Config, MissingFileIsOneLine) {
  auto c = load_config("/nonexistent/modeld.toml");
  ASSERT_FALSE(c.ok());
  EXPECT_NE(c.error().what.find("/nonexistent/modeld.toml"), std::string::npos);
}

}  // namespace
}  // namespace modeld::daemon
