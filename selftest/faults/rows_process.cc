// Who runs it: workers and supervisors that are stopped, killed, starved or cannot be ended, the
// configuration they run by, and the rights they must not have.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "selftest/e2e/bundle_damage.h"
#include "selftest/faults/row.h"
#include "selftest/faults/world.h"

namespace modeld::faults {
namespace {

using e2e::put_bytes;
using ipc::ModelState;
using ipc::Reason;

constexpr ModelState kOut = ModelState::kUnavailable;
// The contract's 150 ms, the frame that must come first, and the message that says it.
constexpr int64_t kTimeoutMs = 250;
// A worker's end is seen at the next step.
constexpr int64_t kDiedMs = 150;
constexpr int64_t kRestartMs = 5000;
constexpr int64_t kSilentMs = 1200;
// For what is no figure of the contract.
constexpr int64_t kPatienceMs = 20'000;

void kill_worker(Scene& s) {
  s.signal_worker("road", SIGKILL);
}
void crash_worker(Scene& s) {
  s.signal_worker("road", SIGSEGV);
}
void stop_worker(Scene& s) {
  s.signal_worker("road", SIGSTOP);
}

void expect_cabin_untouched(Scene& s) {
  s.require_starts("cabin", 1, "cabin's worker was replaced, too");
}

void kill_worker_three_times(Scene& s) {
  for (int i = 0; i < 3; ++i) {
    const auto is_there = [&] { return s.rig().worker_pid("road") > 0; };
    s.require_in_time(s.tap().wait_for(is_there, kPatienceMs), "no new worker");
    s.signal_worker("road", SIGKILL);
    s.pause_ms(50);
  }
}

void wait_until_wedged(Scene& s) {
  const auto is_wedged = [&] {
    const auto now = s.tap().status("road");
    return now && now->reason == Reason::kDeviceLost &&
           now->text.find("wedged") != std::string::npos;
  };
  s.require_in_time(s.tap().wait_for(is_wedged, 4000),
                    "a worker that cannot be ended is not device_lost");
  s.require(s.tap().status("road")->worker_starts == 1, "a second worker on a wedged device");
  thaw(s);
}

// The worker of the only model, as soon as there is one: it loads for a while yet.
int loading_worker(Scene& s) {
  const auto is_there = [&] { return !s.rig().worker_pids().empty(); };
  s.require_in_time(s.tap().wait_for(is_there, kPatienceMs), "no worker");
  const auto workers = s.rig().worker_pids();
  return workers.empty() ? 0 : workers.front();
}

void only_road(Scene& s) {
  s.options.bundles.erase("cabin");
  s.options.extra = "load_s = 2\n";
  s.switches = "load_delay_ms=800";  // a load is seen and met though this process is held up
  s.records = false;
}

void stop_loading_worker(Scene& s) {
  const int pid = loading_worker(s);
  s.fault_ns = now_ns();
  if (pid > 0) kill(pid, SIGSTOP);
}

// Held in its load until somebody listens: else it may be gone before the first state is heard.
void kill_loading_worker(Scene& s) {
  const int pid = loading_worker(s);
  if (pid > 0) kill(pid, SIGSTOP);
  const auto is_told = [&] { return s.tap().status("road").has_value(); };
  s.require_in_time(s.tap().wait_for(is_told, 1000), "no state while the worker loads");
  s.fault_ns = now_ns();
  if (pid > 0) kill(pid, SIGKILL);
}

std::vector<int> workers_before;

void kill_supervisor(Scene& s) {
  workers_before = s.rig().worker_pids();
  s.rig().daemon().signal(SIGKILL);
}

void end_supervisor(Scene& s) {
  workers_before = s.rig().worker_pids();
  s.rig().daemon().signal(SIGTERM);
  s.require(s.rig().daemon().wait(kPatienceMs) == 0, "SIGTERM is not exit 0");
}

void start_again(Scene& s) {
  for (const int pid : workers_before)
    s.require(!e2e::is_alive(pid), strf("worker %d outlived its supervisor", pid));
  s.rig().start_daemon();
}

void start_a_second(Scene& s) {
  const ProcResult r = e2e::run({e2e::program("modeld"), "--config", s.rig().config_path()},
                                {"MODELD_RUNTIME_DIR=" + s.rig().dir()});
  s.require(r.exit_code == 1, strf("the second one ended with %d", r.exit_code));
  s.require(r.err.find(std::to_string(s.rig().daemon().pid())) != std::string::npos,
            "it does not name the first: " + r.err);
}

void actuator_in_reach(Scene& s) {
  if (!enter_mount_namespace(s)) return;
  mount_empty(s, "/dev/shm");
  if (s.skipped().empty()) put_bytes("/dev/shm/msgq_sendcan", "x");
}

void user_missing(Scene& s) {
  if (geteuid() != 0) return s.skip("only root drops its rights");
  s.options.top = "user = \"modeld-no-such-user\"\n";
}

void expect_exit_78(Scene& s) {
  s.require(s.rig().daemon().wait(kPatienceMs) == 78, "it does not end with 78");
}

void bad_config(Scene& s) {
  s.options.top = "wibble = 1\n";
  s.records = false;
}

void expect_exit_78_and_one_line(Scene& s) {
  expect_exit_78(s);
  const std::string log = s.rig().daemon().log_text();
  s.require(
      std::count(log.begin(), log.end(), '\n') == 1 && log.find("wibble") != std::string::npos,
      "not one clear line: " + log);
}

void reload(Scene& s, const std::string& text) {
  put_bytes(s.rig().config_path(), text);
  s.rig().daemon().signal(SIGHUP);
}

void reload_bad_file(Scene& s) {
  reload(s, e2e::config_text(s.options) + "[model.wibble]\nspeed = 1\n");
}

void expect_it_was_told_once(Scene& s) {
  const std::string log = s.rig().daemon().log_text();
  const size_t first = log.find("model.wibble");
  s.require(first != std::string::npos, "the log does not name the key");
  s.require(first == std::string::npos || log.find("model.wibble", first + 1) == std::string::npos,
            "the bad file is told more than once");
}

void reload_changed_file(Scene& s) {
  e2e::RigOptions changed = s.options;
  changed.model_extra["road"] = "late_ms = 60\n";
  reload(s, e2e::config_text(changed));
}

constexpr Row kRows[] = {
    {.name = "worker-sigkill",
     .by = By::kWorld,
     .source = "7 #1 #9 #33",
     .injected = "kill -KILL",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kDeviceLost,
     .text = "signal 9",
     .bound_ms = kDiedMs,
     .back = Back::kItself,
     .back_ms = kRestartMs,
     .gate = Gate::kLeaves,
     .inject = kill_worker,
     .verify = expect_cabin_untouched},
    {.name = "worker-sigsegv",
     .by = By::kWorld,
     .source = "7 #23",
     .injected = "kill -SEGV",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kDeviceLost,
     .text = "signal 11",
     .bound_ms = kDiedMs,
     .back = Back::kItself,
     .back_ms = kRestartMs,
     .gate = Gate::kLeaves,
     .inject = crash_worker,
     .verify = expect_cabin_untouched},
    {.name = "worker-sigstop",
     .by = By::kWorld,
     .source = "7 #18 #19",
     .injected = "kill -STOP",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kTimeout,
     .text = "no answer within 150 ms",
     .bound_ms = kTimeoutMs,
     .back = Back::kItself,
     .back_ms = kRestartMs,
     .gate = Gate::kLeaves,
     .inject = stop_worker,
     .verify = expect_cabin_untouched},
    {.name = "cabin-sigstop",
     .by = By::kWorld,
     .source = "7 #32",
     .injected = "kill -STOP",
     .model = "cabin",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kTimeout,
     .text = "no answer within 150 ms",
     .bound_ms = kTimeoutMs,
     .back = Back::kItself,
     .back_ms = kRestartMs,
     .gate = Gate::kLeaves,
     .inject = [](Scene& s) { s.signal_worker("cabin", SIGSTOP); }},
    {.name = "worker-dies-thrice",
     .by = By::kWorld,
     .source = "7 #33",
     .injected = "kill -KILL, and twice again while it loads",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kDeviceLost,
     .text = "signal 9",
     .bound_ms = kDiedMs,
     .back = Back::kItself,
     .back_ms = kRestartMs,
     .gate = Gate::kLeaves,
     .inject = kill_worker_three_times},
    {.name = "worker-oom",
     .by = By::kWorld,
     .source = "7 #25",
     .injected = "memory group of 48 MiB shared with hogs",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kDeviceLost,
     .text = "signal 9",
     .bound_ms = 3000 /* the hog has to eat first */,
     .back = Back::kItself,
     .back_ms = kRestartMs,
     .gate = Gate::kLeaves,
     .inject = [](Scene& s) { run_out_of_memory(s, s.rig().worker_pid("road")); }},
    {.name = "device-wedged",
     .by = By::kWorld,
     .source = "6, 7 #15",
     .injected = "frozen: SIGKILL does not end it; thawed",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kTimeout,
     .text = "",
     .bound_ms = kTimeoutMs,
     .back = Back::kRepair,
     .back_ms = kRestartMs,
     .gate = Gate::kLeaves,
     .inject = [](Scene& s) { freeze(s, s.rig().worker_pid("road")); },
     .repair = wait_until_wedged},
    {.name = "worker-killed-loading",
     .by = By::kWorld,
     .source = "6",
     .injected = "kill -KILL while it loads",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kLoadFailed,
     .text = "signal 9",
     .bound_ms = kDiedMs,
     .back = Back::kItself,
     .back_ms = kRestartMs,
     .gate = Gate::kNoEntry,
     .setup = only_road,
     .inject = kill_loading_worker,
     .settles = false},
    {.name = "load-hangs",
     .by = By::kWorld,
     .source = "7 #2 #4",
     .injected = "kill -STOP while it loads, load_s = 2",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kLoadFailed,
     .text = "not loaded within 2 s",
     .bound_ms = 2300,
     .back = Back::kItself,
     .back_ms = kRestartMs,
     .gate = Gate::kNoEntry,
     .setup = only_road,
     .inject = stop_loading_worker,
     .settles = false},
    {.name = "supervisor-sigstop",
     .by = By::kWorld,
     .source = "5.2",
     .injected = "kill -STOP, -CONT",
     .model = "road",
     .see = See::kSilence,
     .state = kOut,
     .reason = Reason::kNone,
     .text = "",
     .bound_ms = kSilentMs,
     .back = Back::kRepair,
     .back_ms = kRestartMs,
     .gate = Gate::kLeaves,
     .inject = [](Scene& s) { s.rig().daemon().signal(SIGSTOP); },
     .repair = [](Scene& s) { s.rig().daemon().signal(SIGCONT); }},
    {.name = "supervisor-sigkill",
     .by = By::kWorld,
     .source = "7 #33",
     .injected = "kill -KILL",
     .model = "road",
     .see = See::kSilence,
     .state = kOut,
     .reason = Reason::kNone,
     .text = "",
     .bound_ms = kSilentMs,
     .back = Back::kRepair,
     .back_ms = kRestartMs,
     .gate = Gate::kLeaves,
     .inject = kill_supervisor,
     .repair = start_again},
    {.name = "supervisor-sigterm",
     .by = By::kWorld,
     .source = "2",
     .injected = "kill -TERM",
     .model = "road",
     .see = See::kSilence,
     .state = kOut,
     .reason = Reason::kNone,
     .text = "",
     .bound_ms = kSilentMs,
     .back = Back::kRepair,
     .back_ms = kRestartMs,
     .gate = Gate::kLeaves,
     .inject = end_supervisor,
     .repair = start_again},
    {.name = "second-instance",
     .by = By::kWorld,
     .source = "6",
     .injected = "modeld in the same directory",
     .model = "road",
     .see = See::kUnaffected,
     .state = ModelState::kReady,
     .reason = Reason::kNone,
     .text = "",
     .bound_ms = 1000,
     .back = Back::kStays,
     .back_ms = 0,
     .gate = Gate::kStays,
     .inject = start_a_second},
    {.name = "actuator-in-reach",
     .by = By::kWorld,
     .source = "6 privilege",
     .injected = "a writable /dev/shm/msgq_sendcan",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kPrivilege,
     .text = "msgq_sendcan",
     .bound_ms = 500,
     .back = Back::kStays,
     .back_ms = 0,
     .gate = Gate::kNoEntry,
     .setup = actuator_in_reach,
     .verify = expect_exit_78},
    {.name = "rights-not-dropped",
     .by = By::kWorld,
     .source = "6 privilege",
     .injected = "user = one that does not exist, as root",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kPrivilege,
     .text = "modeld-no-such-user does not exist",
     .bound_ms = 500,
     .back = Back::kStays,
     .back_ms = 0,
     .gate = Gate::kNoEntry,
     .setup = user_missing,
     .verify = expect_exit_78},
    {.name = "config-unreadable",
     .by = By::kWorld,
     .source = "2",
     .injected = "an unknown key",
     .model = "road",
     .see = See::kSilence,
     .state = kOut,
     .reason = Reason::kNone,
     .text = "",
     .bound_ms = 500,
     .back = Back::kStays,
     .back_ms = 0,
     .gate = Gate::kNoEntry,
     .setup = bad_config,
     .verify = expect_exit_78_and_one_line},
    {.name = "reload-bad-file",
     .by = By::kWorld,
     .source = "6",
     .injected = "SIGHUP with an unknown table",
     .model = "road",
     .see = See::kUnaffected,
     .state = ModelState::kReady,
     .reason = Reason::kNone,
     .text = "",
     .bound_ms = 1500,
     .back = Back::kStays,
     .back_ms = 0,
     .gate = Gate::kStays,
     .inject = reload_bad_file,
     .verify = expect_it_was_told_once},
    {.name = "reload-changed-file",
     .by = By::kWorld,
     .source = "6",
     .injected = "SIGHUP with another late_ms for road",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kConfig,
     .text = "changed",
     .bound_ms = kDiedMs,
     .back = Back::kItself,
     .back_ms = kRestartMs,
     .gate = Gate::kLeaves,
     .inject = reload_changed_file,
     .verify = expect_cabin_untouched},
};

}  // namespace

std::span<const Row> process_rows() {
  return kRows;
}

}  // namespace modeld::faults
