// A worker that runs hostile code: it cannot publish, cannot open, cannot exec, and whatever it
// does then, the supervisor says so and starts over, the other model never notices.
#include <cerrno>
#include <cstring>

#include "hal/base/text.h"

#include "selftest/e2e/bundle_damage.h"
#include "selftest/e2e/harness.h"
#include "selftest/e2e/hostile_kernel.h"

namespace modeld::e2e {
namespace {

using ipc::ModelState;
using ipc::Reason;

constexpr int64_t kLoadMs = 60'000;
// Past the self-test and a context of 24 frames: it is READY when it turns.
constexpr int64_t kTurnsAfterMs = 3000;
constexpr const char* kForbiddenFiles[] = {"/dev/shm/msgq_sendcan", "/dev/shm/msgq_carControl",
                                           "/tmp/modeld-hostile", "/tmp/modeld-hostile.sock"};

#define SKIP_WITHOUT_HOSTILE_KERNEL()                                \
  if (const std::string why = why_no_hostile_kernel(); !why.empty()) \
  GTEST_SKIP() << "SKIPPED: " << why

std::string hostile_path(Malice malice) {
  return join_path(scratch_dir(), strf("hostile-%d.bundle", static_cast<int>(malice)));
}

RigOptions hostile_pair(Malice malice) {
  make_hostile(tiny_bundle("road"), hostile_path(malice), malice, kTurnsAfterMs);
  RigOptions o;
  o.bundles = {{"road", hostile_path(malice)}, {"cabin", tiny_bundle("cabin")}};
  o.strict = {"road"};
  o.model_extra["road"] = "late_ms = 1000\ntimeout_ms = 1000\n";
  return o;
}

// The first time after `after_ns` that the model is out for a reason of its own.
std::optional<Transition> when_out(Rig& rig, const std::string& model, int64_t after_ns) {
  rig.tap().wait_for([&] { return rig.tap().find_fault(model, after_ns).has_value(); },
                     kTurnsAfterMs + kLoadMs);
  return rig.tap().find_fault(model, after_ns);
}

void expect_untouched(Rig& rig, const std::string& model) {
  const auto fault = rig.tap().find_fault(model);
  EXPECT_FALSE(fault.has_value()) << model << ": " << fault->status.text;
  EXPECT_EQ(rig.tap().status(model)->worker_starts, 1u) << model;
}

void expect_all_refused(const std::string& log) {
  const std::vector<AttemptResult> attempts = attempts_in(log);
  EXPECT_GE(attempts.size(), 36u) << log;
  for (const AttemptResult& a : attempts) {
    const char* name = a.result < 0 ? strerrorname_np(static_cast<int>(-a.result)) : nullptr;
    std::printf("  %-32s %s\n", a.name.c_str(), name != nullptr ? name : "DONE");
    // clone3 "does not exist", so that libraries fall back to clone.
    EXPECT_EQ(a.result, a.name == "clone3" ? -ENOSYS : -EPERM) << a.name;
  }
  for (const char* file : kForbiddenFiles) EXPECT_FALSE(file_exists(file)) << file;
}

TEST(Hostile, EveryAttemptIsRefusedAndTheModelGoesOn) {
  SKIP_WITHOUT_HOSTILE_KERNEL();
  const RigOptions options = hostile_pair(Malice::kNone);
  ASSERT_FALSE(HasFailure());
  Rig rig(options);
  for (const char* model : {"road", "cabin"})
    ASSERT_TRUE(rig.tap().wait_state(model, ModelState::kReady, kLoadMs)) << model;
  ASSERT_TRUE(
      rig.tap().wait_for([&] { return rig.log_text().find("hostile: bpf") != std::string::npos; },
                         kTurnsAfterMs + kLoadMs))
      << rig.log_text();
  const size_t ran = rig.tap().outputs("road").size();
  EXPECT_TRUE(
      rig.tap().wait_for([&] { return rig.tap().outputs("road").size() >= ran + 20; }, kLoadMs));
  expect_all_refused(rig.log_text());
  EXPECT_TRUE(rig.daemon().is_running());
  for (const char* model : {"road", "cabin"}) expect_untouched(rig, model);
}

// The flags of every mapping of a camera's memory in a process, as the kernel has them.
std::vector<std::string> camera_mapping_flags(int pid) {
  std::vector<std::string> out;
  bool is_camera = false;
  for (const std::string& line : split(proc_text(strf("/proc/%d/smaps", pid)), '\n')) {
    if (line.find('-') < line.find(' '))  // a mapping's first line, "FROM-TO ..."
      is_camera = line.find("/memfd:camera-") != std::string::npos;
    if (is_camera && line.rfind("VmFlags:", 0) == 0) out.push_back(line);
  }
  return out;
}

// Pictures are shared with the other model: a worker cannot make its mapping of them writable.
TEST(Hostile, TheCamerasPicturesCannotBeWritten) {
  RigOptions options;
  options.bundles = {{"road", tiny_bundle("road")}, {"cabin", tiny_bundle("cabin")}};
  Rig rig(options);
  for (const char* model : {"road", "cabin"}) {
    ASSERT_TRUE(rig.tap().wait_state(model, ModelState::kReady, kLoadMs)) << model;
    const auto flags = camera_mapping_flags(rig.worker_pid(model));
    EXPECT_FALSE(flags.empty()) << model;
    // "mw": mprotect may add the right to write.
    for (const std::string& f : flags) {
      EXPECT_EQ(f.find(" mw"), std::string::npos) << f;
      EXPECT_NE(f.find(" mr"), std::string::npos) << f;
    }
  }
}

struct Case {
  const char* name;
  Malice malice;
  Reason reason;
  const char* text;  // a word of the state's text
};
// For GoogleTest's messages.
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class HostileWorker : public ::testing::TestWithParam<Case> {};

TEST_P(HostileWorker, IsToldReplacedAndHarmsNobodyElse) {
  SKIP_WITHOUT_HOSTILE_KERNEL();
  const Case& c = GetParam();
  const RigOptions options = hostile_pair(c.malice);
  ASSERT_FALSE(HasFailure());
  Rig rig(options);
  for (const char* model : {"road", "cabin"})
    ASSERT_TRUE(rig.tap().wait_state(model, ModelState::kReady, kLoadMs)) << model;
  const std::optional<Transition> down = when_out(rig, "road", 0);
  ASSERT_TRUE(down.has_value());
  std::printf("%s: UNAVAILABLE(%s): %s\n", c.name, ipc::reason_name(down->status.reason),
              down->status.text.c_str());
  EXPECT_EQ(down->status.reason, c.reason) << ipc::reason_name(down->status.reason);
  EXPECT_THAT(down->status.text, ::testing::HasSubstr(c.text));
  expect_all_refused(rig.log_text());

  // Another worker, READY again until it turns as well; meanwhile a good bundle takes its place.
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kReady, 5000 * kSlack, down->at_ns));
  EXPECT_GE(rig.tap().status("road")->worker_starts, 2u);
  put_bytes(hostile_path(c.malice), bytes_of(tiny_bundle("road")));
  const std::optional<Transition> again =
      when_out(rig, "road", rig.tap().find("road", ModelState::kReady, down->at_ns)->at_ns);
  ASSERT_TRUE(again.has_value());
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kReady, 5000 * kSlack, again->at_ns));
  EXPECT_TRUE(rig.daemon().is_running());
  expect_untouched(rig, "cabin");
  for (const Output& o : rig.tap().outputs("road"))
    EXPECT_TRUE(o.is_finite || !o.header.valid) << "frame " << o.frame_id;
}

INSTANTIATE_TEST_SUITE_P(
    Malice,
    HostileWorker,
    ::testing::Values(Case{"Crash", Malice::kCrash, Reason::kDeviceLost, "signal 11"},
                      Case{"Hang", Malice::kHang, Reason::kTimeout, "no answer within 1000 ms"},
                      Case{"Lie", Malice::kLie, Reason::kDeviceLost, "?"},
                      Case{"Flood", Malice::kFlood, Reason::kDeviceLost, "no packet it may send"},
                      Case{"Accuse", Malice::kAccuse, Reason::kDeviceLost,
                           "no packet it may send"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace modeld::e2e
