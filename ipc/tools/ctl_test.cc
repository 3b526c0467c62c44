// modelctl's commands against a daemon played by this test over real sockets.
#include <atomic>
#include <functional>
#include <thread>

#include "hal/base/fs.h"
#include "hal/base/json.h"

#include "ipc/control.h"
#include "ipc/publisher.h"
#include "ipc/recording.h"
#include "ipc/state_json.h"
#include "ipc/tools/ctl_commands.h"

namespace modeld::ipc {
namespace {

// Publishes state at 10 Hz and, once it has loaded, outputs from a thread, and answers on
// control.sock.
class PlayedDaemon {
 public:
  struct Play {
    ModelState road_state = ModelState::kReady;
    uint64_t hz = 20;
    double load_s = 0.25;
    bool has_cabin = true;
    bool loses_third = false;  // of the messages: its run is counted and never told of
  };
  explicit PlayedDaemon(const std::string& dir) : PlayedDaemon(dir, Play()) {}
  PlayedDaemon(const std::string& dir, const Play& play)
      : dir_(dir),
        play_(play),
        first_output_(static_cast<uint64_t>(play.load_s * static_cast<double>(play.hz))),
        thread_([this] { run(); }) {}
  ~PlayedDaemon() {
    stop_ = true;
    thread_.join();
  }
  int outputs() const { return outputs_; }

 private:
  void run() {
    ZmqContext context;
    const auto state_sender = bind_topic(context, dir_, Topic::kState);
    const auto road_sender = bind_topic(context, dir_, Topic::kRoad);
    const auto cabin_sender = bind_topic(context, dir_, Topic::kCabin);
    const auto metrics_sender = bind_topic(context, dir_, Topic::kMetrics);
    auto control = ControlServer::listen(dir_);
    Publisher state(**state_sender), road(**road_sender), cabin(**cabin_sender),
        metrics(**metrics_sender);
    StateMessage states;
    states.models.resize(2);
    states.models[0].name = "road";
    states.models[0].state = play_.road_state;
    states.models[1].name = "cabin";
    states.models[1].state = ModelState::kReady;
    if (!play_.has_cabin) states.models.pop_back();
    states.source = "synth;seed=1;vehicle=straight;fps=20;road=64x48";
    auto next = std::chrono::steady_clock::now();
    for (uint64_t tick = 0; !stop_; ++tick) {
      control->service([&](std::string_view request) { return answer(request, states); });
      if (tick % (play_.hz / 10) == 0) {
        EXPECT_TRUE(state.publish(states).ok());
        MetricsMessage counters;
        counters.counters = {{"frames_total", static_cast<double>(tick)}};
        EXPECT_TRUE(metrics.publish(counters).ok());
      }
      if (tick >= first_output_) publish_outputs(tick, road, cabin);
      next += std::chrono::milliseconds(1000 / play_.hz);
      std::this_thread::sleep_until(next);
    }
  }
  void publish_outputs(uint64_t tick, Publisher& road, Publisher& cabin) {
    RoadMessage r;
    r.header.valid = true;
    r.header.state = ModelState::kReady;
    r.header.frame_id = tick;
    r.road_frame_id = tick;
    r.timings.sof_ns = now_ns() - 10 * kNsPerMs;
    r.timings.received_ns = now_ns() - 5 * kNsPerMs;
    const uint64_t n = tick - first_output_ + 1;
    r.run = RunIdentity{0, n + (play_.loses_third && n >= 3 ? 1 : 0), true};
    r.plan.mean[0] = static_cast<float>(tick);
    r.raw = {static_cast<float>(tick)};
    EXPECT_TRUE(road.publish(r).ok());
    CabinMessage c;
    c.header = r.header;
    c.run = r.run;
    c.raw = r.raw;
    c.cabin_frame_id = tick;
    c.timings = r.timings;
    c.lhd.face_prob = static_cast<float>(tick);
    EXPECT_TRUE(!play_.has_cabin || cabin.publish(c).ok());
    ++outputs_;
  }
  static std::string answer(std::string_view request, const StateMessage& states) {
    const auto json = Json::parse(request);
    const std::string command = json.ok() ? json->find("command")->string_or("") : "";
    if (command == "status") return state_to_json(states, now_ns()).dump();
    if (command == "trace") return "{\"traceEvents\":[{\"name\":\"step\"}]}";
    return "{\"ok\":false,\"error\":\"unknown command\"}";
  }

  std::string dir_;
  Play play_;
  uint64_t first_output_;  // a model takes its time to load
  std::atomic<bool> stop_ = false;
  std::atomic<int> outputs_ = 0;
  std::thread thread_;
};

class Ctl : public testing::Test {
 protected:
  Ctl() : dir_(std::move(*TempDir::create("ipc"))) {
    options_.dir = dir_.path();
    options_.json = true;
    options_.wait_s = 30;
    options_.seconds = 0.4;
  }
  // Waits until the played daemon's control socket answers.
  void wait_for_daemon() {
    const Deadline deadline = Deadline::in_ms(30'000);
    while (
        !control_request(dir_.path(), "{\"command\":\"status\"}", Deadline::in_ms(30'000)).ok() &&
        !deadline.has_passed())
      std::this_thread::yield();
  }
  // Exit code of a command, its stdout in out_.
  int run(int (*command)(const CtlOptions&)) {
    testing::internal::CaptureStdout();
    const int code = command(options_);
    out_ = testing::internal::GetCapturedStdout();
    return code;
  }
  // Runs a command until `holds` likes its code and out_. A machine that holds up the played daemon
  // or the client is told of, as it should be, and asked again.
  bool run_until(int (*command)(const CtlOptions&), const std::function<bool(int code)>& holds) {
    for (int i = 0; i < 30; ++i) {
      if (holds(run(command))) return true;
    }
    return false;
  }
  TempDir dir_;
  CtlOptions options_;
  std::string out_;
};

TEST_F(Ctl, WatchRequirePassesOnAHealthyDaemonAndPrintsOneObject) {
  // Twice a camera's rate: in a watch of 0.4 s one frame is 2.5 Hz, and where in a period the watch
  // began may not decide.
  PlayedDaemon daemon(dir_.path(), {.hz = 40});
  options_.require = true;
  EXPECT_TRUE(run_until(cmd_watch, [](int code) { return code == 0; })) << out_;
  const auto json = Json::parse(out_);
  ASSERT_TRUE(json.ok()) << out_;
  EXPECT_EQ(json->members().at(0).first, "frames");
  EXPECT_EQ(json->find("state")->string_or(""), "READY");
  EXPECT_GE(json->find("road_ms_p50")->double_or(0), 5.0);
}

TEST_F(Ctl, WatchRequireFailsOnAnUnavailableModel) {
  PlayedDaemon daemon(dir_.path(), {.road_state = ModelState::kUnavailable});
  options_.require = true;
  const auto says_unavailable = [&](int code) {
    EXPECT_EQ(code, 1);
    return Json::parse(out_)->find("state")->string_or("") == "UNAVAILABLE";
  };
  EXPECT_TRUE(run_until(cmd_watch, says_unavailable)) << out_;
}

TEST_F(Ctl, WatchWithoutDaemonGivesUp) {
  options_.wait_s = 0.05;
  EXPECT_EQ(run(cmd_watch), 1);
}

TEST_F(Ctl, RecordWritesTheRunsSinceTheReset) {
  options_.file = dir_.path() + "/a.rec";
  uint64_t road_runs = 0, all_runs = 0;
  // The recorder must be there before the first run; on a busy machine that takes longer.
  for (double load_s = 0.25; road_runs < 5 && load_s < 20; load_s *= 4) {
    options_.seconds = 2 * load_s;
    const PlayedDaemon daemon(dir_.path(), {.load_s = load_s});
    if (run(cmd_record) != 0) continue;
    const auto recording = read_recording(options_.file);
    ASSERT_TRUE(recording.ok()) << recording.error().what;
    EXPECT_EQ(recording->source, "synth;seed=1;vehicle=straight;fps=20;road=64x48");
    all_runs = recording->runs.size();
    road_runs = 0;
    for (const RecordedRun& run : recording->runs) {
      if (run.model != RecordedModel::kRoad) continue;
      EXPECT_EQ(run.since_reset, ++road_runs);
    }
  }
  EXPECT_GE(road_runs, 5u);
  EXPECT_GT(all_runs, road_runs);
}

TEST_F(Ctl, RecordThatJoinsInTheMiddleRefuses) {
  PlayedDaemon daemon(dir_.path());
  options_.file = dir_.path() + "/a.rec";
  const Deadline deadline = Deadline::in_ms(30'000);
  while (daemon.outputs() < 3 && !deadline.has_passed()) std::this_thread::yield();
  EXPECT_EQ(run(cmd_record), 1);
  EXPECT_FALSE(file_exists(options_.file));
}

TEST_F(Ctl, StatusTraceAndMetricsAnswer) {
  PlayedDaemon daemon(dir_.path());
  wait_for_daemon();
  ASSERT_EQ(run(cmd_status), 0);
  EXPECT_EQ(Json::parse(out_)->find("models")->items().at(0).find("name")->string_or(""), "road");
  options_.file = dir_.path() + "/trace.json";
  ASSERT_EQ(run(cmd_trace), 0);
  EXPECT_EQ(Json::parse(*read_text(options_.file))->find("traceEvents")->size(), 1u);
  ASSERT_EQ(run(cmd_metrics), 0);
  EXPECT_NE(Json::parse(out_)->find("counters")->find("frames_total"), nullptr);
}

TEST_F(Ctl, StatusWithoutDaemonFails) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(cmd_status), 1);
  const std::string err = testing::internal::GetCapturedStderr();
  EXPECT_THAT(err, testing::StartsWith("modelctl: connecting to "));
  EXPECT_THAT(err, testing::EndsWith("; is modeld running?\n"));
}

// A vehicle may have one model only.
TEST_F(Ctl, WatchDoesNotWaitForAModelThatModeldDoesNotRun) {
  const PlayedDaemon daemon(dir_.path(), {.hz = 40, .has_cabin = false});
  EXPECT_EQ(run(cmd_watch), 0) << out_;
  EXPECT_EQ(Json::parse(out_)->find("state")->string_or(""), "READY");
  options_.wait_s = 0.3;
  options_.require = true;  // which needs both, unless told otherwise
  EXPECT_EQ(run(cmd_watch), 1) << out_;
  options_.models = {"road"};
  EXPECT_TRUE(run_until(cmd_watch, [](int code) { return code == 0; })) << out_;
  options_.models = {"cabin"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(cmd_watch), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "modelctl: no valid message of cabin in 0.3 s: state none\n");
}

TEST_F(Ctl, GateJudgesTheModelsThatItIsTold) {
  options_.seconds.reset();
  const PlayedDaemon daemon(dir_.path(), {.has_cabin = false});
  EXPECT_EQ(run(cmd_gate), 1) << out_;
  options_.models = {"road"};
  EXPECT_TRUE(run_until(cmd_gate, [](int code) { return code == 0; })) << out_;
  EXPECT_THAT(out_, testing::HasSubstr("road outputs are alive"));
}

TEST_F(Ctl, RecordSaysWhatItLacks) {
  options_.file = dir_.path() + "/a.rec";
  int code = 1;
  std::string err;
  for (double load_s = 0.25; code != 0 && load_s < 20; load_s *= 4) {
    const PlayedDaemon daemon(dir_.path(), {.load_s = load_s, .loses_third = true});
    testing::internal::CaptureStderr();
    code = run(cmd_record);
    err = testing::internal::GetCapturedStderr();
  }
  ASSERT_EQ(code, 0) << err;
  EXPECT_THAT(err, testing::StartsWith("modelctl: " + options_.file + " lacks runs: road: "));
  EXPECT_THAT(err, testing::HasSubstr("after a missed message until the next reset"));
  const auto json = Json::parse(out_);
  EXPECT_EQ(json->find("road_runs")->int_or(0), 2);
  EXPECT_GT(json->find("road_left_out")->find("after_missed")->int_or(0), 1);
  EXPECT_EQ(json->find("cabin_left_out")->find("beyond_limit")->int_or(-1), 0);
}

struct Answer {
  int exit = 0;
  std::string out, err;
};

Answer modelctl(std::vector<const char*> words) {
  words.insert(words.begin(), "modelctl");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Answer a;
  a.exit = modelctl_main(static_cast<int>(words.size()), words.data());
  a.out = testing::internal::GetCapturedStdout();
  a.err = testing::internal::GetCapturedStderr();
  return a;
}

TEST(CtlLine, HelpShowsExamplesExitCodesAndTheRuleOfTheRuntimeDirectory) {
  const Answer a = modelctl({"--help"});
  EXPECT_EQ(a.exit, 0);
  EXPECT_EQ(a.err, "");
  for (const char* text :
       {"Examples:\n  modelctl status\n", "modelctl record drive.rec --seconds 60",
        "Exit codes: 0 ok",
        "option --dir, this, runtime_dir of modeld's configuration, /run/modeld if it exists, "
        "$XDG_RUNTIME_DIR/modeld, /tmp/modeld-UID"})
    EXPECT_THAT(a.out, testing::HasSubstr(text));
  for (const char* command : {"status", "watch", "metrics", "trace", "record", "gate"}) {
    EXPECT_THAT(a.out, testing::HasSubstr(std::string("\n  ") + command));
    EXPECT_THAT(modelctl({command, "--help"}).out, testing::HasSubstr("/run/modeld if it exists"));
  }
  EXPECT_THAT(modelctl({"gate", "--help"}).out, testing::HasSubstr("after 1 s at the latest"));
}

TEST(CtlLine, WrongUsageIsOneLineThatNamesWhatWasTyped) {
  const struct {
    std::vector<const char*> words;
    std::string line;
  } cases[] = {
      {{}, "A subcommand is required"},
      {{"wibble"}, "unknown argument \"wibble\""},
      {{"status", "--wibble", "x"}, "unknown arguments \"--wibble\" \"x\""},
      {{"watch", "--seconds", "abc"}, "--seconds: \"abc\" is not a number from 0.001 to 1000000"},
      {{"gate", "--seconds", "-1"}, "--seconds: \"-1\" is not a number from 0.001 to 1000000"},
      {{"gate", "--model", "tail"}, "--model: tail not in {road,cabin}"},
      {{"record", "--model", "road"}, "FILE is required"},
  };
  for (const auto& [words, line] : cases) {
    const Answer a = modelctl(words);
    EXPECT_EQ(a.exit, 2) << line;
    EXPECT_EQ(a.err, "modelctl: " + line + " (see modelctl --help)\n");
    EXPECT_EQ(a.out, "") << line;
  }
}

TEST_F(Ctl, GateFollowsTheDaemon) {
  options_.seconds.reset();
  {
    PlayedDaemon daemon(dir_.path());
    wait_for_daemon();
    // Its first word is the verdict, not the silence before the first message.
    const auto says_one_word = [&](int code) {
      const auto json = Json::parse(out_);
      return code == 0 && json.ok() && json->find("log")->size() == 1;
    };
    ASSERT_TRUE(run_until(cmd_gate, says_one_word)) << out_;
    const auto json = Json::parse(out_);
    EXPECT_TRUE(json->find("may_engage")->bool_or(false));
    const auto& log = json->find("log")->items();
    EXPECT_EQ(log[0].find("decision")->string_or(""), "may engage");
    EXPECT_GT(log[0].find("last_valid_road")->find("frame_id")->int_or(0), 0);
  }
  options_.seconds = 0.6;
  EXPECT_EQ(run(cmd_gate), 1);
  EXPECT_THAT(out_, testing::HasSubstr("no state message seen"));
}

}  // namespace
}  // namespace modeld::ipc
