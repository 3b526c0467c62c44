// What it gives: numbers that are none, devices that are slow, hang or go away, and the fallback
// that takes over.
#include <signal.h>

#include <algorithm>

#include "selftest/e2e/bundle_damage.h"
#include "selftest/faults/row.h"

namespace modeld::faults {
namespace {

using e2e::Output;
using e2e::tiny_bundle;
using ipc::ModelState;
using ipc::Reason;

constexpr ModelState kOut = ModelState::kUnavailable;
constexpr const char* kBlackFrame = "80";  // four seconds after the camera's start
// From the start of the black frame: read-out, run, the message.
constexpr int64_t kNonFiniteMs = 200;
constexpr int64_t kNextFrameMs = 1000;
constexpr int64_t kDiedMs = 150;
constexpr int64_t kRestartMs = 5000;
constexpr int64_t kFallbackMs = 200;
constexpr int64_t kWarmMs = 20'000;

// ---- numbers ----

void wrong_when_black(Scene& s, const char* model, const char* variant) {
  s.options.bundles[model] = tiny_bundle(model, variant);
  s.options.camera.insert(s.options.camera.end(), {"--black-at", kBlackFrame});
}

// The fault began with the frame.
void wait_for_black_frame(Scene& s, const char* model) {
  const auto black = [&]() -> std::optional<Output> {
    for (const Output& o : s.tap().outputs(model)) {
      if (o.frame_id == std::stoull(kBlackFrame) && o.timings.sof_ns != 0) return o;
    }
    return std::nullopt;
  };
  s.require_in_time(s.tap().wait_for([&] { return black().has_value(); }, 10'000),
                    "the black frame was not run");
  if (const auto o = black()) s.fault_ns = o->timings.sof_ns;
}

void expect_one_fault(Scene& s, const char* model) {
  const auto status = s.tap().status(model);
  s.require(status && status->non_finite == 1, "one black frame is not one fault");
  s.require_starts(model, 1, "the worker did not live on");
  for (const Output& o : s.tap().outputs(model))
    s.require(!(o.header.valid && o.frame_id == std::stoull(kBlackFrame)),
              "the black frame's output is valid");
}

// ---- devices ----

// Four frames that take 70 ms: stopped and let go again from outside.
void four_slow_frames(Scene& s) {
  const int pid = s.rig().worker_pid("road");
  for (int i = 0; i < 4; ++i) {
    const uint64_t late = s.tap().status("road")->frames_late;
    const Deadline end = Deadline::in_ms(2000);
    while (s.tap().status("road")->frames_late == late && !end.has_passed()) {
      kill(pid, SIGSTOP);
      s.pause_ms(105);
      kill(pid, SIGCONT);
      s.fault_ns = now_ns();
      s.pause_ms(150);  // until the state message has counted it
    }
  }
}

// ---- fallback ----

void with_fallback(Scene& s) {
  const std::string spare = s.copy_of(tiny_bundle("road"), "spare.bundle");
  s.options.model_extra["road"] = "fallback_bundle = \"" + spare + "\"\n";
  s.records = false;  // two models' runs on one topic
}

// Whether a process of the daemon's has run a frame to its end, by the daemon's own trace.
bool has_run_a_frame(Scene& s, const std::string& process) {
  const std::string file = s.file("trace.json");
  if (s.rig().ctl({"trace", file}).exit_code != 0) return false;
  const auto text = read_text(file, uint64_t{256} << 20);
  const auto json = Json::parse(text.ok() ? *text : "{}");
  if (!json.ok()) return false;
  const auto& events = json->find("traceEvents")->items();
  const auto names_it = [&](const Json& e) {
    const Json* const name = e.find("args") == nullptr ? nullptr : e.find("args")->find("name");
    return name != nullptr && name->string_or("") == process;
  };
  const auto named = std::find_if(events.begin(), events.end(), names_it);
  return named != events.end() && std::any_of(events.begin(), events.end(), [&](const Json& e) {
           return e.find("name")->string_or("") == "commit" &&
                  e.find("pid")->int_or(0) == named->find("pid")->int_or(-1);
         });
}

// The fallback is warm once it runs the frames, too.
void wait_for_warm_fallback(Scene& s) {
  const auto is_warm = [&] { return has_run_a_frame(s, "road fallback worker"); };
  s.require_in_time(s.tap().wait_for(is_warm, kWarmMs), "the fallback does not run frames");
}

void kill_primary(Scene& s) {
  wait_for_warm_fallback(s);
  s.fault_ns = now_ns();
  s.signal_worker("road", SIGKILL);
}

void expect_fallback_at_once(Scene& s) {
  for (const Output& o : s.tap().outputs("road")) {
    if (!o.header.valid || !o.header.degraded) continue;
    const int64_t ms = (o.header.time_ns - *s.fault_ns) / kNsPerMs;
    s.note(strf("fallback's first valid message after %lld ms (limit 200)",
                static_cast<long long>(ms)));
    s.require_in_time(ms < kFallbackMs * s.slack,
                      strf("the fallback spoke after %lld ms", static_cast<long long>(ms)));
    return;
  }
  s.require_in_time(false, "the fallback never spoke");
}

void kill_both(Scene& s) {
  wait_for_warm_fallback(s);
  const int primary = s.rig().worker_pid("road");
  const int cabin = s.rig().worker_pid("cabin");
  for (const int pid : s.rig().worker_pids()) {
    if (pid != primary && pid != cabin) kill(pid, SIGKILL);
  }
  s.pause_ms(30);
  s.fault_ns = now_ns();
  kill(primary, SIGKILL);
}

constexpr Row non_finite(const char* name,
                         const char* injected,
                         const char* source,
                         const char* model,
                         void (*setup)(Scene&),
                         void (*inject)(Scene&),
                         void (*verify)(Scene&)) {
  return {.name = name,
          .by = By::kWorld,
          .source = source,
          .injected = injected,
          .model = model,
          .see = See::kState,
          .state = kOut,
          .reason = Reason::kNonFinite,
          .text = "",
          .bound_ms = kNonFiniteMs,
          .back = Back::kItself,
          .back_ms = kNextFrameMs,
          .gate = Gate::kLeaves,
          .setup = setup,
          .inject = inject,
          .verify = verify};
}

void black_road(Scene& s) {
  wait_for_black_frame(s, "road");
}
void black_cabin(Scene& s) {
  wait_for_black_frame(s, "cabin");
}
void once_road(Scene& s) {
  expect_one_fault(s, "road");
}
void once_cabin(Scene& s) {
  expect_one_fault(s, "cabin");
}

constexpr Row kRows[] = {
    non_finite(
        "road-nan",
        "a NaN in the outputs of one frame",
        "7 #9",
        "road",
        [](Scene& s) { wrong_when_black(s, "road", "nan"); },
        black_road,
        once_road),
    non_finite(
        "road-nan-state",
        "a NaN in the state of one frame",
        "7 #9",
        "road",
        [](Scene& s) { wrong_when_black(s, "road", "nan-state"); },
        black_road,
        once_road),
    non_finite(
        "road-inf-slice",
        "an infinity in one slice",
        "7 #9",
        "road",
        [](Scene& s) { wrong_when_black(s, "road", "inf-slice"); },
        black_road,
        once_road),
    non_finite(
        "road-zero",
        "all outputs 0",
        "7 #20",
        "road",
        [](Scene& s) { wrong_when_black(s, "road", "zero"); },
        black_road,
        once_road),
    non_finite(
        "cabin-nan",
        "a NaN in the outputs of one frame",
        "7 #9",
        "cabin",
        [](Scene& s) { wrong_when_black(s, "cabin", "nan"); },
        black_cabin,
        once_cabin),
    non_finite(
        "cabin-zero",
        "all outputs 0",
        "7 #20",
        "cabin",
        [](Scene& s) { wrong_when_black(s, "cabin", "zero"); },
        black_cabin,
        once_cabin),
    {.name = "device-slow",
     .by = By::kWorld,
     .source = "7 #10 #26",
     .injected = "stopped for 105 ms until 4 frames were late",
     .model = "road",
     .see = See::kState,
     .state = ModelState::kDegraded,
     .reason = Reason::kTimeout,
     .text = "of the last 100 frames",
     .bound_ms = 250,
     .back = Back::kItself,
     .back_ms = 8000,
     .gate = Gate::kLeaves,
     .inject = four_slow_frames},
    {.name = "device-always-slow",
     .by = By::kSwitch,
     .source = "7 #10 #26",
     .injected = "answer_delay_ms=60",
     .model = "road",
     .see = See::kState,
     .state = ModelState::kDegraded,
     .reason = Reason::kTimeout,
     .text = "of the last 100 frames",
     .bound_ms = 2500,
     .back = Back::kStays,
     .back_ms = 0,
     .gate = Gate::kLeaves,
     .setup = [](Scene& s) { s.switches = "answer_delay_ms=60"; }},
    {.name = "answers-too-late",
     .by = By::kSwitch,
     .source = "7 #18",
     .injected = "answer_delay_ms=400",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kTimeout,
     .text = "no answer within 150 ms",
     .bound_ms = 2500,
     .back = Back::kStays,
     .back_ms = 0,
     .gate = Gate::kNoEntry,
     .setup = [](Scene& s) { s.switches = "answer_delay_ms=400"; }},
    {.name = "device-hangs",
     .by = By::kSwitch,
     .source = "7 #24",
     .injected = "cpu_hang_at=400: a run that never ends",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kTimeout,
     .text = "no answer within 150 ms",
     .bound_ms = 15'000,
     .back = Back::kItself,
     .back_ms = kRestartMs,
     .gate = Gate::kLeaves,
     .setup = [](Scene& s) { s.switches = "cpu_hang_at=400"; }},
    {.name = "device-lost",
     .by = By::kSwitch,
     .source = "7 #1 #5",
     .injected = "device_lost_at=40: a run returns device lost; it is back",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kDeviceLost,
     .text = "device",
     .bound_ms = 5000,
     .back = Back::kItself,
     .back_ms = kRestartMs,
     .gate = Gate::kLeaves,
     .setup = [](Scene& s) { s.switches = "device_lost_at=40"; }},
    {.name = "load-slow",
     .by = By::kSwitch,
     .source = "7 #2 #17",
     .injected = "load_delay_ms=4000, load_s = 2",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kLoadFailed,
     .text = "not loaded within 2 s",
     .bound_ms = 2500,
     .back = Back::kStays,
     .back_ms = 0,
     .gate = Gate::kNoEntry,
     .setup =
         [](Scene& s) {
           s.switches = "load_delay_ms=4000";
           s.options.extra = "load_s = 2\n";
         }},
    {.name = "fallback-takes-over",
     .by = By::kWorld,
     .source = "7 #1 #8",
     .injected = "kill -KILL of the primary",
     .model = "road",
     .see = See::kState,
     .state = ModelState::kDegraded,
     .reason = Reason::kDeviceLost,
     .text = "fallback in use",
     .bound_ms = kDiedMs,
     .back = Back::kItself,
     .back_ms = kRestartMs,
     .gate = Gate::kSoft,
     .setup = with_fallback,
     .inject = kill_primary,
     .verify = expect_fallback_at_once},
    {.name = "fallback-from-the-start",
     .by = By::kWorld,
     .source = "7 #4 #14",
     .injected = "no primary bundle, a good fallback",
     .model = "road",
     .see = See::kState,
     .state = ModelState::kDegraded,
     .reason = Reason::kBundleMissing,
     .text = "fallback in use",
     .bound_ms = 3000,
     .back = Back::kStays,
     .back_ms = 0,
     .gate = Gate::kNoEntry,
     .setup =
         [](Scene& s) {
           with_fallback(s);
           s.options.bundles["road"] = s.file("nowhere.bundle");
         }},
    {.name = "fallback-dies-too",
     .by = By::kWorld,
     .source = "7 #1",
     .injected = "kill -KILL of fallback and primary",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kDeviceLost,
     .text = "signal 9",
     .bound_ms = kDiedMs,
     .back = Back::kItself,
     .back_ms = kRestartMs,
     .gate = Gate::kLeaves,
     .setup = with_fallback,
     .inject = kill_both},
};

}  // namespace

std::span<const Row> output_rows() {
  return kRows;
}

}  // namespace modeld::faults
