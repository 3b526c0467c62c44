// Camera to messages on tiny stand-ins: rates, changing outputs, recording and replay, who comes
// late, who comes second.
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "ipc/recording.h"

#include "selftest/e2e/harness.h"

namespace modeld::e2e {
namespace {

using ipc::ModelState;

constexpr int64_t kLoadMs = 60'000;

RigOptions tiny_pair() {
  RigOptions o;
  o.bundles = {{"road", tiny_bundle("road")}, {"cabin", tiny_bundle("cabin")}};
  return o;
}

void expect_ready(Rig& rig) {
  for (const char* model : {"road", "cabin"})
    ASSERT_TRUE(rig.tap().wait_state(model, ModelState::kReady, kLoadMs)) << model;
}

// Frames per second that were answered, by the times at which their pictures began.
double rate_hz(const std::vector<Output>& valid) {
  if (valid.size() < 2) return 0;
  return static_cast<double>(valid.size() - 1) * 1e9 /
         static_cast<double>(valid.back().timings.sof_ns - valid.front().timings.sof_ns);
}

size_t distinct(const std::vector<Output>& outputs) {
  std::set<uint64_t> digests;
  for (const Output& o : outputs) digests.insert(o.digest);
  return digests.size();
}

TEST(EndToEnd, RoadAndCabinPublishValidChangingOutputsAt20Hz) {
  Rig rig(tiny_pair());
  expect_ready(rig);
  for (const char* model : {"road", "cabin"}) {
    ASSERT_TRUE(rig.tap().wait_for(
        [&] { return valid_ones(rig.tap().outputs(model)).size() >= 60; }, kLoadMs))
        << model;
    const std::vector<Output> valid = valid_ones(rig.tap().outputs(model));
    std::printf("%s: %.1f Hz (limit 19)\n", model, rate_hz(valid));
    EXPECT_GT(rate_hz(valid), 19.0 / kSlack) << model;
    EXPECT_LT(rate_hz(valid), 21.0) << model;
    EXPECT_GT(distinct(valid), valid.size() * 9 / 10) << model << ": outputs follow the scene";
    for (size_t i = 0; i < valid.size(); ++i) {
      EXPECT_TRUE(valid[i].is_finite) << model;
    }
    for (size_t i = 1; i < valid.size(); ++i)
      EXPECT_GT(valid[i].frame_id, valid[i - 1].frame_id) << model;
    EXPECT_FALSE(rig.tap().find_fault(model).has_value()) << model;
    EXPECT_EQ(rig.tap().status(model)->compiled_calls, 0u) << model;
  }
}

TEST(EndToEnd, StatesFollowTheOrderOfTheContract) {
  Rig rig(tiny_pair());
  expect_ready(rig);
  for (const char* model : {"road", "cabin"}) {
    ModelState last = ModelState::kLoading;
    for (const Transition& t : rig.tap().transitions(model)) {
      if (is_of_the_machine(t.status.reason)) break;
      EXPECT_GE(static_cast<int>(t.status.state), static_cast<int>(last))
          << model << " went back to " << ipc::model_state_name(t.status.state);
      last = t.status.state;
    }
  }
}

// A recording of two seconds in `file`. It must hold every run since the reset: the recorder gets a
// head start before the first frame, and when it came too late all the same it says so and is given
// a longer one.
void record(const std::string& file) {
  std::string said;
  for (const int64_t head_start_ms : {300, 3000, 12'000}) {
    RigOptions options = tiny_pair();
    options.start_camera = false;
    Rig rig(options);
    const auto recorder = rig.ctl_child({"record", file, "--seconds", "2"}, "record.log");
    ASSERT_TRUE(rig.tap().wait_for([&] { return rig.tap().first_state_ns(2) != 0; }, kLoadMs));
    std::this_thread::sleep_for(std::chrono::milliseconds(head_start_ms));
    rig.start_camera();
    expect_ready(rig);
    const auto code = recorder->wait(kLoadMs);
    said = recorder->log_text();
    if (code == 0) return;
    ASSERT_THAT(said, ::testing::HasSubstr("nothing recorded"));
  }
  FAIL() << said;
}

int64_t runs_of(const ipc::Recording& recording, const std::string& model) {
  const auto wanted = model == "road" ? ipc::RecordedModel::kRoad : ipc::RecordedModel::kCabin;
  return std::count_if(recording.runs.begin(), recording.runs.end(),
                       [&](const ipc::RecordedRun& run) { return run.model == wanted; });
}

TEST(EndToEnd, RecordingReplaysBitForBit) {
  const std::string file = join_path(scratch_dir(), "rec");
  record(file);
  ASSERT_FALSE(HasFatalFailure());
  const auto recording = ipc::read_recording(file);
  ASSERT_TRUE(recording.ok()) << recording.error().what;
  for (const char* model : {"road", "cabin"}) {
    const ProcResult r = modelc({"run", tiny_bundle(model), "--replay", file, "--json"});
    EXPECT_EQ(r.exit_code, 0) << model << ": " << r.err;
    const auto json = Json::parse(r.out);
    ASSERT_TRUE(json.ok()) << r.out;
    EXPECT_EQ(json->find("runs")->int_or(0), runs_of(*recording, model)) << model;
    EXPECT_GE(runs_of(*recording, model), 30 / kSlack) << model;
    // And again: what is replayed depends on nothing but the recording.
    const ProcResult twice = modelc({"run", tiny_bundle(model), "--replay", file, "--json"});
    EXPECT_EQ(twice.out, r.out) << model << ": " << twice.err;
  }
  // A check that cannot fail is none: one bit of one raw number.
  ipc::Recording wrong = *recording;
  auto bits = std::bit_cast<uint32_t>(wrong.runs.back().raw.back());
  wrong.runs.back().raw.back() = std::bit_cast<float>(bits ^ 1);
  ASSERT_TRUE(ipc::write_recording(file + "-wrong", wrong).ok());
  const char* const model = wrong.runs.back().model == ipc::RecordedModel::kRoad ? "road" : "cabin";
  const ProcResult r = modelc({"run", tiny_bundle(model), "--replay", file + "-wrong"});
  EXPECT_TRUE(is_one_clear_line(r, 1));
}

// One subscriber may be held up by the machine; a daemon that is late is late for all.
TEST(EndToEnd, LateSubscriberKnowsEveryState) {
  Rig rig(tiny_pair());
  expect_ready(rig);
  double best_ms = 1e9;
  for (int i = 0; i < 5; ++i) {
    const int64_t start = now_ns();
    Tap late(rig.dir());
    ASSERT_TRUE(late.wait_for([&] { return late.first_state_ns(2) != 0; }, kLoadMs));
    best_ms = std::min(best_ms, static_cast<double>(late.first_state_ns(2) - start) / 1e6);
    for (const char* model : {"road", "cabin"}) {
      const ipc::ModelStatus status = late.transitions(model).front().status;
      EXPECT_TRUE(status.state == ModelState::kReady || is_of_the_machine(status.reason))
          << ipc::model_state_name(status.state);
    }
  }
  std::printf("late subscriber: every model's state after %.0f ms (limit 200)\n", best_ms);
  EXPECT_LE(best_ms, 200.0 * kSlack);
}

TEST(EndToEnd, SecondDaemonNamesTheFirst) {
  Rig rig(tiny_pair());
  expect_ready(rig);
  const ProcResult r =
      run({program("modeld"), "--config", rig.config_path()}, {"MODELD_RUNTIME_DIR=" + rig.dir()});
  EXPECT_TRUE(is_one_clear_line(r, 1));
  EXPECT_THAT(r.err, ::testing::HasSubstr(std::to_string(rig.daemon().pid())));
  EXPECT_TRUE(rig.daemon().is_running());
}

TEST(EndToEnd, StatusAndGateSpeakForAnyClient) {
  Rig rig(tiny_pair());
  expect_ready(rig);
  const ProcResult status = rig.ctl({"status", "--json"});
  ASSERT_EQ(status.exit_code, 0) << status.err;
  const auto json = Json::parse(status.out);
  ASSERT_TRUE(json.ok()) << status.out;
  EXPECT_EQ(json->find("models")->size(), 2u);
  EXPECT_EQ(json->find("pid")->int_or(0), rig.daemon().pid());
  // The gate stays out while a busy machine loses frames.
  ProcResult gate;
  const auto lets_in = [&] {
    gate = rig.ctl({"gate", "--seconds", "1"});
    return gate.exit_code == 0;
  };
  EXPECT_TRUE(rig.tap().wait_for(lets_in, 60'000)) << gate.out << gate.err;
  EXPECT_THAT(gate.out, ::testing::HasSubstr("may engage"));
  const ProcResult trace = rig.ctl({"trace", rig.file("trace.json")});
  EXPECT_EQ(trace.exit_code, 0) << trace.err;
}

TEST(EndToEnd, WithoutVehicleInputsNothingRuns) {
  RigOptions options = tiny_pair();
  options.camera = {"--vehicle", "off"};
  Rig rig(options);
  for (const char* model : {"road", "cabin"}) {
    ASSERT_TRUE(rig.tap().wait_state(model, ModelState::kUnavailable, kLoadMs)) << model;
    EXPECT_EQ(rig.tap().find(model, ModelState::kUnavailable)->status.reason,
              ipc::Reason::kInputStale);
    EXPECT_TRUE(valid_ones(rig.tap().outputs(model)).empty()) << model;
  }
}

TEST(EndToEnd, WithoutCalibrationNothingRuns) {
  RigOptions options = tiny_pair();
  options.camera = {"--vehicle", "uncalibrated"};
  Rig rig(options);
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kUnavailable, kLoadMs));
  const ipc::ModelStatus status = rig.tap().find("road", ModelState::kUnavailable)->status;
  EXPECT_EQ(status.reason, ipc::Reason::kInputStale);
  EXPECT_THAT(status.text, ::testing::HasSubstr("calibration"));
  EXPECT_TRUE(valid_ones(rig.tap().outputs("road")).empty());
}

TEST(EndToEnd, ContextIsFilledBeforeAnythingIsValid) {
  RigOptions options;
  options.bundles = {{"road", standin_bundle("road", "small")}};
  Rig rig(options);
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kReady, kLoadMs));
  // Of the reset that led to it: an earlier one may have been cut short by the machine.
  const auto first_valid = [&]() -> std::optional<Output> {
    const std::vector<Output> valid = valid_ones(rig.tap().outputs("road"));
    return valid.empty() ? std::nullopt : std::optional(valid.front());
  };
  ASSERT_TRUE(rig.tap().wait_for([&] { return first_valid().has_value(); }, kLoadMs));
  EXPECT_EQ(first_valid()->run.since_reset, 25u);
  size_t accepted = 0;
  for (const Output& o : rig.tap().outputs("road")) {
    if (!o.run.accepted || o.run.resets != first_valid()->run.resets || o.run.since_reset > 24)
      continue;
    ++accepted;
    EXPECT_FALSE(o.header.valid) << o.run.since_reset;
    EXPECT_EQ(o.header.state, ModelState::kWarming);
  }
  EXPECT_EQ(accepted, 24u);
  EXPECT_EQ(rig.tap().status("road")->context_frames, 24u);
}

TEST(EndToEnd, CameraOfUnknownSizeIsACameraFault) {
  RigOptions options = tiny_pair();
  options.camera = {"--camera", "640x480"};
  Rig rig(options);
  for (const char* model : {"road", "cabin"}) {
    ASSERT_TRUE(rig.tap().wait_state(model, ModelState::kUnavailable, kLoadMs)) << model;
    EXPECT_EQ(rig.tap().find(model, ModelState::kUnavailable)->status.reason,
              ipc::Reason::kCameraFault);
  }
}

TEST(EndToEnd, CameraThatGoesAwayIsToldAndTakenBack) {
  Rig rig(tiny_pair());
  expect_ready(rig);
  const int worker = rig.worker_pid("road");
  const int64_t start = now_ns();
  rig.stop_camera();
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kUnavailable, kLoadMs, start));
  // Pictures stop at once, vehicle inputs come from the same program: whichever is noticed first.
  const ipc::Reason reason = rig.tap().find("road", ModelState::kUnavailable, start)->status.reason;
  EXPECT_TRUE(reason == ipc::Reason::kCameraFault || reason == ipc::Reason::kInputStale)
      << ipc::reason_name(reason);
  const int64_t again = now_ns();
  rig.start_camera();
  EXPECT_TRUE(rig.tap().wait_state("road", ModelState::kReady, 5000 * kSlack, again));
  EXPECT_TRUE(rig.tap().wait_state("cabin", ModelState::kReady, 5000 * kSlack, again));
  EXPECT_EQ(rig.worker_pid("road"), worker) << "the worker lives on";
}

TEST(EndToEnd, BadFileOnReloadKeepsTheOldConfiguration) {
  Rig rig(tiny_pair());
  expect_ready(rig);
  ASSERT_TRUE(
      write_text_atomic(rig.config_path(), "[model.road]\nbundle = \"x\"\nspeed = 1\n").ok());
  rig.daemon().signal(SIGHUP);
  ASSERT_TRUE(rig.tap().wait_for(
      [&] { return rig.log_text().find("model.road.speed") != std::string::npos; }, kLoadMs));
  const size_t seen = valid_ones(rig.tap().outputs("road")).size();
  EXPECT_TRUE(rig.tap().wait_for(
      [&] { return valid_ones(rig.tap().outputs("road")).size() >= seen + 10; }, kLoadMs));
  EXPECT_FALSE(rig.tap().find_fault("road").has_value());
}

TEST(EndToEnd, NullDeviceSaysThatItIsSimulated) {
  RigOptions options = tiny_pair();
  options.device = "null";
  Rig rig(options);
  expect_ready(rig);
  ASSERT_TRUE(rig.tap().wait_for([&] { return valid_ones(rig.tap().outputs("road")).size() >= 5; },
                                 kLoadMs));
  for (const Output& o : rig.tap().outputs("road")) {
    EXPECT_TRUE(o.header.simulated || !o.header.valid);
  }
  EXPECT_TRUE(rig.tap().status("road")->simulated);
}

// What /proc says of a process: "Uid:".
std::string uid_line(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("Uid:", 0) == 0) return line;
  return "";
}

TEST(EndToEnd, StartedAsRootItBecomesTheUserOfItsConfiguration) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED: not root here";
  const passwd* const nobody = getpwnam("nobody");
  if (nobody == nullptr) GTEST_SKIP() << "SKIPPED: no user nobody here";
  const uid_t uid = nobody->pw_uid;
  RigOptions options = tiny_pair();
  // Others must be able to read the bundles and to enter the runtime directory.
  namespace fs = std::filesystem;
  fs::permissions(scratch_dir(), fs::perms::others_exec, fs::perm_options::add);
  options.top = "user = \"nobody\"\n";
  options.run_dir_owner = {uid, nobody->pw_gid};
  Rig rig(options);
  expect_ready(rig);
  EXPECT_THAT(uid_line(rig.daemon().pid()), ::testing::HasSubstr(std::to_string(uid)));
  EXPECT_THAT(uid_line(rig.worker_pid("road")), ::testing::HasSubstr(std::to_string(uid)));
}

TEST(EndToEnd, StopsOnSigtermAndLeavesNoWorker) {
  Rig rig(tiny_pair());
  expect_ready(rig);
  const int worker = rig.worker_pid("road");
  ASSERT_GT(worker, 0);
  rig.daemon().signal(SIGTERM);
  EXPECT_EQ(rig.daemon().wait(kLoadMs), 0);
  EXPECT_TRUE(rig.tap().wait_for([&] { return !is_alive(worker); }, kLoadMs))
      << "worker " << worker << " outlived the daemon";
}

}  // namespace
}  // namespace modeld::e2e
