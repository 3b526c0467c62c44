// What goes wrong on a vehicle: a worker that hangs, one that dies, numbers that are none.
#include "models/bundle/bundle_reader.h"

#include "selftest/e2e/harness.h"

namespace modeld::e2e {
namespace {

using ipc::ModelState;
using ipc::Reason;

constexpr int64_t kLoadMs = 30'000;

RigOptions pair_of(const std::string& road_variant, const std::string& cabin_variant) {
  RigOptions o;
  o.bundles = {{"road", tiny_bundle("road", road_variant)},
               {"cabin", tiny_bundle("cabin", cabin_variant)}};
  return o;
}

void expect_ready(Rig& rig) {
  for (const char* model : {"road", "cabin"})
    ASSERT_TRUE(rig.tap().wait_state(model, ModelState::kReady, kLoadMs)) << model;
}

double ms_since(int64_t from, int64_t to) {
  return static_cast<double>(to - from) / 1e6;
}

// valid=true never comes with a number that is not finite.
void expect_no_valid_nonsense(const Rig& rig, const std::string& model) {
  auto& tap = const_cast<Rig&>(rig).tap();
  for (const Output& o : tap.outputs(model))
    EXPECT_TRUE(o.is_finite || !o.header.valid) << model << " frame " << o.frame_id;
}

TEST(Faults, StoppedWorkerIsATimeoutAndComesBack) {
  Rig rig(pair_of("clean", "clean"));
  expect_ready(rig);
  const int worker = rig.worker_pid("road");
  ASSERT_GT(worker, 0);
  const int64_t start = now_ns();
  ASSERT_EQ(kill(worker, SIGSTOP), 0);
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kUnavailable, 5000, start));
  const Transition down = *rig.tap().find("road", ModelState::kUnavailable, start);
  std::printf("kill -STOP: UNAVAILABLE(%s) after %.0f ms (limit 250)\n",
              ipc::reason_name(down.status.reason), ms_since(start, down.at_ns));
  EXPECT_EQ(down.status.reason, Reason::kTimeout);
  EXPECT_LE(ms_since(start, down.at_ns), 250.0 * kSlack);
  kill(worker, SIGCONT);
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kReady, 5000 * kSlack, down.at_ns));
  const Transition up = *rig.tap().find("road", ModelState::kReady, down.at_ns);
  std::printf("READY again %.0f ms after that (limit 5000)\n", ms_since(down.at_ns, up.at_ns));
  EXPECT_EQ(up.status.timeouts, 1u);
  // The other model never noticed.
  EXPECT_FALSE(rig.tap().find("cabin", ModelState::kUnavailable).has_value());
}

TEST(Faults, HeartbeatsAreInvalidAndFullSizeThenSilent) {
  Rig rig(pair_of("clean", "clean"));
  expect_ready(rig);
  const int64_t start = now_ns();
  rig.camera()->signal(SIGSTOP);
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kUnavailable, 5000, start));
  const int64_t down = rig.tap().find("road", ModelState::kUnavailable, start)->at_ns;
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  size_t beats = 0;
  int64_t last = 0;
  for (const Output& o : rig.tap().outputs("road")) {
    if (o.at_ns < down) continue;
    ++beats;
    last = o.at_ns;
    EXPECT_FALSE(o.header.valid);
    EXPECT_EQ(o.plan_numbers, size_t{33 * 15});
    EXPECT_TRUE(o.is_finite);
  }
  std::printf("%zu heartbeats in %.0f ms, then silence\n", beats, ms_since(down, last));
  EXPECT_GE(beats, size_t{20 / kSlack});
  EXPECT_LE(beats, 25u);
  EXPECT_LE(ms_since(down, last), 2000);
}

TEST(Faults, KilledWorkerIsReplaced) {
  Rig rig(pair_of("clean", "clean"));
  expect_ready(rig);
  const int worker = rig.worker_pid("cabin");
  ASSERT_GT(worker, 0);
  const int64_t start = now_ns();
  ASSERT_EQ(kill(worker, SIGKILL), 0);
  ASSERT_TRUE(rig.tap().wait_state("cabin", ModelState::kUnavailable, 5000, start));
  const Transition down = *rig.tap().find("cabin", ModelState::kUnavailable, start);
  EXPECT_EQ(down.status.reason, Reason::kDeviceLost);
  EXPECT_THAT(down.status.text, ::testing::HasSubstr("signal 9"));
  ASSERT_TRUE(rig.tap().wait_state("cabin", ModelState::kReady, 5000 * kSlack, down.at_ns));
  EXPECT_NE(rig.worker_pid("cabin"), worker);
  EXPECT_FALSE(rig.tap().find("road", ModelState::kUnavailable).has_value());
}

TEST(Faults, KilledSupervisorTakesItsWorkersAlong) {
  Rig rig(pair_of("clean", "clean"));
  expect_ready(rig);
  const int workers[] = {rig.worker_pid("road"), rig.worker_pid("cabin")};
  rig.daemon().signal(SIGKILL);
  ASSERT_TRUE(rig.daemon().wait(3000).has_value());
  for (const int worker : workers)
    EXPECT_TRUE(rig.tap().wait_for([&] { return kill(worker, 0) != 0; }, 3000)) << worker;
}

// (role, variant): what goes wrong when the camera shows a zero pixel.
class NonFinite : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(NonFinite, IsToldNeverPublishedAndLeavesNoTrace) {
  const auto [model, variant] = GetParam();
  const bool is_road = std::string(model) == "road";
  constexpr uint64_t kBlack = 80;
  RigOptions options = pair_of(is_road ? variant : "clean", is_road ? "clean" : variant);
  options.camera = {"--black-at", std::to_string(kBlack)};
  options.start_camera = false;
  Rig rig(options);
  const auto recorder = rig.ctl_child({"record", rig.file("rec")}, "record.log");
  // Loaded before the camera starts, so that frame kBlack is one that runs.
  ASSERT_TRUE(rig.tap().wait_state(model, ModelState::kWarming, kLoadMs));
  rig.start_camera();
  const int64_t start = now_ns();
  ASSERT_TRUE(rig.tap().wait_for(
      [&] {
        const auto status = rig.tap().status(model);
        return status && status->non_finite > 0;
      },
      15'000));
  std::optional<Transition> down;
  for (const Transition& t : rig.tap().transitions(model)) {
    if (t.status.state == ModelState::kUnavailable && t.status.reason == Reason::kNonFinite)
      down = t;
  }
  ASSERT_TRUE(down.has_value());
  EXPECT_GE(down->at_ns, start);
  ASSERT_TRUE(rig.tap().wait_state(model, ModelState::kReady, 5000 * kSlack, down->at_ns));
  const size_t ran = rig.tap().outputs(model).size();
  ASSERT_TRUE(
      rig.tap().wait_for([&] { return rig.tap().outputs(model).size() >= ran + 20; }, 5000));
  recorder->signal(SIGINT);
  ASSERT_EQ(recorder->wait(5000), 0) << recorder->log_text();

  expect_no_valid_nonsense(rig, model);
  for (const Output& o : rig.tap().outputs(model))
    EXPECT_FALSE(o.header.valid && o.frame_id == kBlack) << "the black frame was published";
  EXPECT_EQ(rig.tap().status(model)->non_finite, 1u) << "one frame, one fault";
  EXPECT_EQ(rig.tap().status(model)->worker_starts, 1u) << "the worker lives on";
  // Right again: bit for bit what the clean model computes from the frames after the reset.
  const ProcResult r = modelc({"run", tiny_bundle(model), "--replay", rig.file("rec"), "--json"});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  const auto json = Json::parse(r.out);
  ASSERT_TRUE(json.ok()) << r.out;
  EXPECT_GE(json->find("runs")->int_or(0), 15);
}

INSTANTIATE_TEST_SUITE_P(Variants,
                         NonFinite,
                         ::testing::Values(std::pair{"road", "nan"},
                                           std::pair{"road", "nan-state"},
                                           std::pair{"road", "inf-slice"},
                                           std::pair{"road", "zero"},
                                           std::pair{"cabin", "nan"},
                                           std::pair{"cabin", "inf-slice"},
                                           std::pair{"cabin", "zero"}),
                         [](const auto& test) {
                           std::string name =
                               std::string(test.param.first) + "_" + test.param.second;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace modeld::e2e
