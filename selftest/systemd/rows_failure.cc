// Stopped, crashed, refused: what systemd does then, and what consumers hear.
#include <signal.h>

#include <algorithm>

#include "hal/base/fs.h"
#include "hal/base/text.h"

#include "selftest/systemd/row.h"

namespace modeld::systemd_check {
namespace {

constexpr int64_t kUsPerMs = 1000;
constexpr int64_t kRestartMs = 500;  // RestartSec=
constexpr int64_t kWatchdogMs = 2000;
constexpr int64_t kBurst = 5;  // StartLimitBurst=
constexpr int64_t kStateTimeoutMs = 500;

void pause_ms(int64_t ms) {
  const timespec t{ms / 1000, (ms % 1000) * kNsPerMs};
  nanosleep(&t, nullptr);
}

bool exists(int pid) {
  return pid > 0 && kill(pid, 0) == 0;
}

// Another modeld is up and READY=1.
Status wait_for_another(Stage& stage, int pid, int64_t timeout_ms) {
  return stage.wait_for(
      strf("a modeld after process %d is active", pid),
      [&] {
        return stage.show(kDaemon, "ActiveState") == "active" && stage.daemon_pid() > 0 &&
               stage.daemon_pid() != pid;
      },
      timeout_ms);
}

Result<std::string> watchdog_ends_a_stopped_one(Stage& stage) {
  RETURN_IF_ERROR(stage.start_daemon());
  const int pid = stage.daemon_pid();
  const int64_t stopped = now_ns();
  if (kill(pid, SIGSTOP) != 0) return fail_errno(Errc::kIo, "SIGSTOP", errno);
  RETURN_IF_ERROR(stage.wait_for(
      "the watchdog ends the stopped modeld", [&] { return !exists(pid); },
      kWatchdogMs + 1000 * stage.slack()));
  const int64_t ms = (now_ns() - stopped) / kNsPerMs;
  RETURN_IF_ERROR(wait_for_another(stage, pid, 5000 * stage.slack()));
  if (stage.number(kDaemon, "NRestarts") != 1)
    return fail(Errc::kInvalid, "NRestarts is " + stage.show(kDaemon, "NRestarts"));
  return strf("ended after %lld ms (WatchdogSec 2 s), another one READY",
              static_cast<long long>(ms));
}

Result<std::string> crash_is_restarted_after_a_pause(Stage& stage) {
  RETURN_IF_ERROR(stage.start_daemon());
  std::string out;
  for (int i = 1; i <= 2; ++i) {
    const int pid = stage.daemon_pid();
    const int64_t crashed_us = now_ns() / 1000;
    if (kill(pid, SIGSEGV) != 0) return fail_errno(Errc::kIo, "SIGSEGV", errno);
    RETURN_IF_ERROR(wait_for_another(stage, pid, 5000 * stage.slack()));
    const int64_t ms =
        (stage.number(kDaemon, "ExecMainStartTimestampMonotonic") - crashed_us) / kUsPerMs;
    if (ms < kRestartMs || ms > kRestartMs + 500 * stage.slack())
      return fail(Errc::kInvalid,
                  strf("started again %lld ms after the crash, RestartSec is %lld ms",
                       static_cast<long long>(ms), static_cast<long long>(kRestartMs)));
    if (stage.number(kDaemon, "NRestarts") != i)
      return fail(Errc::kInvalid, "NRestarts is " + stage.show(kDaemon, "NRestarts"));
    out += strf("%s%lld ms", i == 1 ? "started again after " : ", ", static_cast<long long>(ms));
  }
  return out;
}

// Both models' topics and the state, as any consumer hears them.
Status is_stated(Stage& stage, const char* reason, const std::string& text) {
  const std::string wanted = std::string("UNAVAILABLE(") + reason + ")";
  RETURN_IF_ERROR(stage.wait_for(
      "modeld-unavailable is active",
      [&] { return stage.show(kUnavailable, "ActiveState") == "active"; }, 3000 * stage.slack()));
  for (const char* model : {"road", "cabin"}) {
    RETURN_IF_ERROR(stage.wait_for(
        strf("a state message that says %s is %s: ...%s", model, wanted.c_str(), text.c_str()),
        [&] {
          const auto s = stage.tap().status(model);
          return s && s->state == ipc::ModelState::kUnavailable &&
                 reason == std::string(ipc::reason_name(s->reason)) &&
                 s->text.find(text) != std::string::npos;
        },
        2000 * stage.slack()));
    // Positive statements on the model's own topic: full size, not valid, with the reason.
    RETURN_IF_ERROR(stage.wait_for(
        strf("valid=false on topic %s", model),
        [&] {
          const auto outputs = stage.tap().outputs(model);
          return !outputs.empty() && !outputs.back().header.valid &&
                 reason == std::string(ipc::reason_name(outputs.back().header.reason));
        },
        2000 * stage.slack()));
  }
  // modelctl asks over control.sock.
  if (const std::string seen = stage.standing("road"); seen != wanted)
    return fail(Errc::kInvalid, "modelctl status says road is " + seen);
  // It stays: somebody who comes later hears it as well.
  stage.fresh_tap();
  return stage.wait_for(
      "a later subscriber hears the state", [&] { return stage.tap().status("cabin").has_value(); },
      kStateTimeoutMs * stage.slack());
}

// A repaired modeld speaks for itself again, and nobody else does.
Status comes_back(Stage& stage) {
  RETURN_IF_ERROR(stage.systemctl({"reset-failed", kDaemon}));
  RETURN_IF_ERROR(stage.start_daemon());
  if (stage.show(kUnavailable, "ActiveState") != "inactive")
    return fail(Errc::kInvalid, "modeld-unavailable still runs beside modeld");
  const std::string seen = stage.standing("cabin");
  if (seen.empty() || seen.find("load_failed") != std::string::npos ||
      seen.find("config") != std::string::npos)
    return fail(Errc::kInvalid, "after the repair cabin is " + (seen.empty() ? "unknown" : seen));
  return {};
}

// Not another start for as long as several would have taken.
Status stays_down(Stage& stage, int64_t for_ms) {
  const std::string started = stage.show(kDaemon, "ExecMainStartTimestampMonotonic");
  pause_ms(for_ms);
  if (stage.show(kDaemon, "ExecMainStartTimestampMonotonic") != started ||
      stage.show(kDaemon, "ActiveState") != "failed")
    return fail(Errc::kInvalid, "modeld was started again");
  return {};
}

// Exit code 78, said at once, and never tried again.
Status is_final(Stage& stage, const char* reason, const std::string& text) {
  RETURN_IF_ERROR(stage.wait_for(
      "modeld has failed", [&] { return stage.show(kDaemon, "ActiveState") == "failed"; },
      5000 * stage.slack()));
  if (const std::string code = stage.show(kDaemon, "ExecMainStatus"); code != "78")
    return fail(Errc::kInvalid, "modeld ended with " + code + ", want 78");
  if (const std::string n = stage.show(kDaemon, "NRestarts"); n != "0")
    return fail(Errc::kInvalid, "NRestarts is " + n);
  RETURN_IF_ERROR(is_stated(stage, reason, text));
  return stays_down(stage, 4 * kRestartMs);
}

Result<std::string> crash_loop_ends(Stage& stage) {
  stage.fresh_tap();
  RETURN_IF_ERROR(stage.start_daemon());
  for (int64_t i = 1; i <= kBurst; ++i) {
    const int pid = stage.daemon_pid();
    if (kill(pid, SIGSEGV) != 0) return fail_errno(Errc::kIo, "SIGSEGV", errno);
    if (i < kBurst) RETURN_IF_ERROR(wait_for_another(stage, pid, 5000 * stage.slack()));
  }
  RETURN_IF_ERROR(stage.wait_for(
      "modeld is given up after 5 crashes",
      [&] { return stage.show(kDaemon, "ActiveState") == "failed"; }, 3000 * stage.slack()));
  RETURN_IF_ERROR(is_stated(stage, "load_failed", "signal SEGV"));
  RETURN_IF_ERROR(stays_down(stage, 3 * kRestartMs));
  RETURN_IF_ERROR(comes_back(stage));
  return std::string("5 starts, then stated UNAVAILABLE(load_failed); a start ends it");
}

Result<std::string> exit_78_is_final(Stage& stage) {
  stage.fresh_tap();
  RETURN_IF_ERROR(stage.write_config("[model.road]\nbundel = \"x\"\n"));
  if (stage.start_daemon().ok())
    return fail(Errc::kInvalid, "modeld starts with a key that it does not know");
  RETURN_IF_ERROR(is_final(stage, "config", strf("%s:2: ", kConfigPath)));
  RETURN_IF_ERROR(stage.write_config(stage.good_config()));
  RETURN_IF_ERROR(comes_back(stage));
  return std::string("no restart in 2 s, stated UNAVAILABLE(config); a start ends it");
}

Result<std::string> privilege_is_final(Stage& stage) {
  stage.fresh_tap();
  RETURN_IF_ERROR(write_text_atomic("/dev/shm/msgq_sendcan", "x", 0666));
  RETURN_IF_ERROR(run_tool({"chmod", "666", "/dev/shm/msgq_sendcan"}));
  // The host's /dev/shm, as if somebody had taken the unit's protection away.
  RETURN_IF_ERROR(stage.drop_in(kDaemon, "[Service]\nTemporaryFileSystem=\n"));
  (void)stage.start_daemon().ok();  // started or not: what counts is the end
  RETURN_IF_ERROR(is_final(stage, "privilege", "exit code 78"));
  return std::string("no restart in 2 s, stated UNAVAILABLE(privilege)");
}

}  // namespace

std::vector<Row> failure_rows() {
  return {
      {"watchdog", "a stopped supervisor is ended by the watchdog and replaced",
       watchdog_ends_a_stopped_one},
      {"crash", "a crash is followed by a restart after RestartSec",
       crash_is_restarted_after_a_pause},
      {"crash-loop", "five crashes are enough; unavailability is stated", crash_loop_ends},
      {"exit-78", "a bad configuration is not tried again; unavailability is stated",
       exit_78_is_final},
      {"privilege", "a forbidden right is not tried again; unavailability is stated",
       privilege_is_final},
  };
}

}  // namespace modeld::systemd_check
