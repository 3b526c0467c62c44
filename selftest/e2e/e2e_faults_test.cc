// What goes wrong on a vehicle: a worker that hangs, one that dies, numbers that are none.
#include "models/bundle/bundle_reader.h"

#include "selftest/e2e/harness.h"

namespace modeld::e2e {
namespace {

using ipc::ModelState;
using ipc::Reason;

constexpr int64_t kLoadMs = 60'000;

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

// The first time after `start` that the model is out for a reason of its own.
Transition wait_fault(Rig& rig, const std::string& model, int64_t start) {
  const auto is_out = [&] { return rig.tap().find_fault(model, start).has_value(); };
  EXPECT_TRUE(rig.tap().wait_for(is_out, kLoadMs)) << model;
  return rig.tap().find_fault(model, start).value_or(Transition{});
}

// valid=true never comes with a number that is not finite.
void expect_no_valid_nonsense(const Rig& rig, const std::string& model) {
  auto& tap = const_cast<Rig&>(rig).tap();
  for (const Output& o : tap.outputs(model))
    EXPECT_TRUE(o.is_finite || !o.header.valid) << model << " frame " << o.frame_id;
}

TEST(Faults, StoppedWorkerIsATimeoutAndComesBack) {
  RigOptions options = pair_of("clean", "clean");
  options.strict = {"road"};
  Rig rig(options);
  expect_ready(rig);
  const int worker = rig.worker_pid("road");
  ASSERT_GT(worker, 0);
  const uint64_t timeouts = rig.tap().status("road")->timeouts;
  const int64_t start = now_ns();
  ASSERT_EQ(kill(worker, SIGSTOP), 0);
  const Transition down = wait_fault(rig, "road", start);
  const double down_ms = ms_since(start, down.status.since_ns);
  std::printf("kill -STOP: UNAVAILABLE(%s) after %.0f ms (limit 250)\n",
              ipc::reason_name(down.status.reason), down_ms);
  EXPECT_EQ(down.status.reason, Reason::kTimeout);
  EXPECT_EQ(down.status.timeouts, timeouts + 1);
  EXPECT_LE(down_ms, 250.0 * kSlack);
  kill(worker, SIGCONT);
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kReady, kLoadMs, down.at_ns));
  const Transition up = *rig.tap().find("road", ModelState::kReady, down.at_ns);
  const double up_ms = ms_since(down.status.since_ns, up.status.since_ns);
  std::printf("READY again %.0f ms after that (limit 5000)\n", up_ms);
  EXPECT_LE(up_ms, 5000.0 * kSlack);
  // The other model never noticed.
  EXPECT_FALSE(rig.tap().find_fault("cabin").has_value());
}

TEST(Faults, HeartbeatsAreInvalidAndFullSizeThenSilent) {
  Rig rig(pair_of("clean", "clean"));
  expect_ready(rig);
  const int64_t start = now_ns();
  rig.camera()->signal(SIGSTOP);
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kUnavailable, kLoadMs, start));
  const int64_t down = rig.tap().find("road", ModelState::kUnavailable, start)->status.since_ns;
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  size_t beats = 0;
  int64_t last = 0;
  for (const Output& o : rig.tap().outputs("road")) {
    if (o.header.time_ns < down) continue;
    ++beats;
    last = o.header.time_ns;
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
  const Transition down = wait_fault(rig, "cabin", start);
  EXPECT_EQ(down.status.reason, Reason::kDeviceLost);
  EXPECT_THAT(down.status.text, ::testing::HasSubstr("signal 9"));
  ASSERT_TRUE(rig.tap().wait_state("cabin", ModelState::kReady, 5000 * kSlack, down.at_ns));
  EXPECT_NE(rig.worker_pid("cabin"), worker);
  EXPECT_FALSE(rig.tap().find_fault("road").has_value());
}

TEST(Faults, KilledSupervisorTakesItsWorkersAlong) {
  Rig rig(pair_of("clean", "clean"));
  expect_ready(rig);
  const int workers[] = {rig.worker_pid("road"), rig.worker_pid("cabin")};
  rig.daemon().signal(SIGKILL);
  ASSERT_TRUE(rig.daemon().wait(kLoadMs).has_value());
  for (const int worker : workers)
    EXPECT_TRUE(rig.tap().wait_for([&] { return !is_alive(worker); }, kLoadMs)) << worker;
}

// (role, variant): what goes wrong when the camera shows a zero pixel.
class NonFinite : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  static constexpr uint64_t kBlack = 80;
  std::string model() const { return GetParam().first; }

  // Daemon and recorder, then the camera: frame kBlack comes when everything is loaded.
  void start() {
    const std::string variant = GetParam().second;
    const bool is_road = model() == "road";
    RigOptions options = pair_of(is_road ? variant : "clean", is_road ? "clean" : variant);
    options.camera = {"--black-at", std::to_string(kBlack)};
    options.start_camera = false;
    recorder_.reset();
    rig_ = std::make_unique<Rig>(options);
    recorder_ = rig_->ctl_child({"record", rig_->file("rec")}, "record.log");
    ASSERT_TRUE(rig_->tap().wait_state(model(), ModelState::kWarming, kLoadMs));
    rig_->start_camera();
  }
  bool has_fault() const {
    const auto status = rig_->tap().status(model());
    return status && status->non_finite > 0;
  }
  // False when a busy machine lost the black frame: later ones ran, and nothing was wrong.
  bool meets_black_frame() const {
    const auto is_past = [&] {
      const auto all = valid_ones(rig_->tap().outputs(model()));
      return has_fault() || (!all.empty() && all.back().frame_id > kBlack + 20);
    };
    EXPECT_TRUE(rig_->tap().wait_for(is_past, kLoadMs));
    return has_fault();
  }
  // Of the newest reset.
  size_t accepted() const {
    const auto all = rig_->tap().outputs(model());
    return static_cast<size_t>(std::count_if(all.begin(), all.end(), [&](const Output& o) {
      return o.run.accepted && o.run.resets == all.back().run.resets;
    }));
  }

  std::unique_ptr<Rig> rig_;
  std::unique_ptr<Child> recorder_;
};

TEST_P(NonFinite, IsToldNeverPublishedAndLeavesNoTrace) {
  for (int i = 0; i < 5 && (i == 0 || !meets_black_frame()); ++i) {
    start();
    ASSERT_FALSE(HasFailure());
  }
  ASSERT_TRUE(meets_black_frame());
  Tap& tap = rig_->tap();
  const auto down = tap.find_fault(model());
  ASSERT_TRUE(down.has_value());
  EXPECT_EQ(down->status.reason, Reason::kNonFinite);
  ASSERT_TRUE(tap.wait_state(model(), ModelState::kReady, 5000 * kSlack, down->at_ns));
  ASSERT_TRUE(tap.wait_for([&] { return accepted() >= 20; }, kLoadMs));
  recorder_->signal(SIGINT);
  ASSERT_EQ(recorder_->wait(kLoadMs), 0) << recorder_->log_text();

  expect_no_valid_nonsense(*rig_, model());
  for (const Output& o : tap.outputs(model()))
    EXPECT_FALSE(o.header.valid && o.frame_id == kBlack) << "the black frame was published";
  EXPECT_EQ(tap.status(model())->non_finite, 1u) << "one frame, one fault";
  EXPECT_EQ(tap.status(model())->worker_starts, 1u) << "the worker lives on";
  // Right again: bit for bit what the clean model computes from the frames after the reset.
  const ProcResult r =
      modelc({"run", tiny_bundle(model()), "--replay", rig_->file("rec"), "--json"});
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
