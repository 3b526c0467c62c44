// From start to READY, and the rights that are really in force.
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>

#include "hal/base/fs.h"
#include "hal/base/text.h"

#include "selftest/systemd/row.h"

namespace modeld::systemd_check {
namespace {

constexpr int64_t kUsPerMs = 1000;
constexpr int64_t kWatchdogMs = 2000;
constexpr int kRowPriority = 20;
constexpr const char* kModels[] = {"road", "cabin"};

void pause_ms(int64_t ms) {
  const timespec t{ms / 1000, (ms % 1000) * kNsPerMs};
  nanosleep(&t, nullptr);
}

std::string load_delay(int64_t ms) {
  return strf("[Service]\nEnvironment=MODELD_FAULT=load_delay_ms=%lld\n",
              static_cast<long long>(ms));
}

// ms from the daemon's exec to READY=1.
int64_t ready_after_ms(Stage& stage) {
  return (stage.number(kDaemon, "ActiveEnterTimestampMonotonic") -
          stage.number(kDaemon, "ExecMainStartTimestampMonotonic")) /
         kUsPerMs;
}

Result<std::string> ready_after_selftest(Stage& stage) {
  constexpr int64_t kDelayMs = 1500;
  RETURN_IF_ERROR(stage.drop_in(kDaemon, load_delay(kDelayMs)));
  RETURN_IF_ERROR(stage.start_daemon());
  // The very first thing after READY: every model is past its own self-test.
  std::string standings;
  for (const char* model : kModels) {
    const std::string now = stage.standing(model);
    if (now.empty() || now == "LOADING" || now == "SELFTEST")
      return fail(Errc::kInvalid,
                  strf("started, but %s is %s", model, now.empty() ? "unknown" : now.c_str()));
    standings += strf(", %s %s", model, now.c_str());
  }
  const int64_t ms = ready_after_ms(stage);
  if (ms < kDelayMs)
    return fail(Errc::kInvalid, strf("READY %lld ms after its start, models load for %lld ms",
                                     static_cast<long long>(ms), static_cast<long long>(kDelayMs)));
  return strf("READY after %lld ms", static_cast<long long>(ms)) + standings;
}

Result<std::string> boot_selftest_comes_first(Stage& stage) {
  RETURN_IF_ERROR(stage.start_daemon());
  const int64_t began = stage.number(kSelftest, "ExecMainStartTimestampMonotonic");
  const int64_t ended = stage.number(kSelftest, "ExecMainExitTimestampMonotonic");
  const int64_t started = stage.number(kDaemon, "ExecMainStartTimestampMonotonic");
  if (began <= 0 || ended <= 0) return fail(Errc::kInvalid, "the boot self-test did not run");
  if (ended > started)
    return fail(Errc::kInvalid, "modeld was started before the boot self-test had ended");
  const std::string result = stage.show(kSelftest, "Result");
  if (result != "success")
    return fail(Errc::kInvalid, "the boot self-test of good bundles: " + result);
  return strf("%lld ms, %s, then modeld", static_cast<long long>((ended - began) / kUsPerMs),
              result.c_str());
}

Result<std::string> slow_load_gets_time(Stage& stage) {
  constexpr int64_t kDelayMs = 6000;
  RETURN_IF_ERROR(stage.drop_in(kDaemon, load_delay(kDelayMs) + "TimeoutStartSec=2\n"));
  RETURN_IF_ERROR(stage.start_daemon());
  const int64_t ms = ready_after_ms(stage);
  const int64_t restarts = stage.number(kDaemon, "NRestarts");
  if (ms < kDelayMs || restarts != 0)
    return fail(Errc::kInvalid, strf("READY after %lld ms with %lld restarts",
                                     static_cast<long long>(ms), static_cast<long long>(restarts)));
  return strf("READY after %lld ms, start limit 2000 ms", static_cast<long long>(ms));
}

// What it is for: both models READY, valid outputs, under all that the unit forbids.
Result<std::string> serves(Stage& stage) {
  stage.start_camera();
  RETURN_IF_ERROR(stage.start_daemon());
  stage.fresh_tap();
  const auto valid = [&](const char* model) {
    const auto outputs = stage.tap().outputs(model);
    return std::count_if(outputs.begin(), outputs.end(),
                         [](const e2e::Output& o) { return o.header.valid; });
  };
  RETURN_IF_ERROR(stage.wait_for(
      "20 valid outputs of both models",
      [&] { return valid("road") >= 20 && valid("cabin") >= 20; }, 10'000 * stage.slack()));
  const auto standing = [&] {
    return strf("road %s, cabin %s", stage.standing("road").c_str(),
                stage.standing("cabin").c_str());
  };
  RETURN_IF_ERROR(stage.wait_for(
      "systemctl status says how the models stand",
      [&] { return stage.show(kDaemon, "StatusText") == standing(); }, 2'000 * stage.slack()));
  return standing();
}

std::string line_of(const std::string& text, const std::string& key) {
  const size_t at = text.find("\n" + key);
  if (at == std::string::npos) return "";
  const size_t from = at + 1 + key.size();
  return std::string(trim(text.substr(from, text.find('\n', from) - from)));
}

// Children of a process, by the kernel's own list.
std::vector<int> children_of(int pid) {
  std::vector<int> out;
  for (const std::string& word :
       split(e2e::proc_text(strf("/proc/%d/task/%d/children", pid, pid)), ' '))
    if (const auto child = parse_int(trim(word)); child.ok())
      out.push_back(static_cast<int>(*child));
  return out;
}

Status has_no_rights(int pid) {
  const std::string status = e2e::proc_text(strf("/proc/%d/status", pid));
  const struct {
    const char* key;
    const char* wanted;
  } lines[] = {{"CapEff:", "0000000000000000"},
               {"CapBnd:", "0000000000000000"},
               {"CapAmb:", "0000000000000000"},
               {"NoNewPrivs:", "1"},
               {"Seccomp:", "2"}};
  for (const auto& line : lines)
    if (const std::string seen = line_of(status, line.key); seen != line.wanted)
      return fail(Errc::kInvalid, strf("process %d: %s %s", pid, line.key, seen.c_str()));
  struct stat st {};
  const std::string proc = strf("/proc/%d", pid);
  if (stat(proc.c_str(), &st) != 0) return fail_errno(Errc::kIo, proc, errno);
  if (st.st_uid == 0) return fail(Errc::kInvalid, strf("process %d runs as root", pid));
  return {};
}

Result<std::string> rights_are_in_force(Stage& stage) {
  RETURN_IF_ERROR(stage.start_daemon());
  const int daemon = stage.daemon_pid();
  RETURN_IF_ERROR(has_no_rights(daemon));
  const auto workers = children_of(daemon);
  if (workers.size() != 2) return fail(Errc::kInvalid, strf("%zu workers, want 2", workers.size()));
  for (const int worker : workers) RETURN_IF_ERROR(has_no_rights(worker));
  // Its own view of the files: nothing to write but what is listed, no home, an empty /dev/shm.
  const std::string mounts = e2e::proc_text(strf("/proc/%d/mountinfo", daemon));
  for (const char* text : {" / / ro", " /run/modeld rw", " /var/lib/modeld rw", " /dev/shm "})
    if (mounts.find(text) == std::string::npos)
      return fail(Errc::kInvalid, strf("no mount%s in the daemon's view", text));
  if (!list_dir(strf("/proc/%d/root/root", daemon)).value_or(std::vector<std::string>{}).empty())
    return fail(Errc::kInvalid, "the daemon sees root's home");
  return strf("supervisor and %zu workers", workers.size());
}

// Whether this machine's root may give a service more than it has itself.
bool can_raise_limits() {
  constexpr uint64_t kSysResource = uint64_t{1} << 24;
  const std::string caps = line_of(e2e::proc_text("/proc/self/status"), "CapEff:");
  const auto bits = parse_int("0x" + caps);
  return bits.ok() && (static_cast<uint64_t>(*bits) & kSysResource) != 0;
}

bool runs_fifo(int pid) {
  sched_param p{};
  return (sched_getscheduler(pid) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO &&
         sched_getparam(pid, &p) == 0 && p.sched_priority == kRowPriority;
}

// What a worker needs, as the manager understood it.
Status limits_are_asked_for(Stage& stage) {
  const struct {
    const char* property;
    const char* wanted;
  } rows[] = {{"LimitMEMLOCK", "infinity"}, {"LimitRTPRIO", "60"}, {"RestrictRealtime", "no"}};
  for (const auto& row : rows)
    if (const std::string seen = stage.show(kDaemon, row.property); seen != row.wanted)
      return fail(Errc::kInvalid,
                  strf("%s is %s, want %s", row.property, seen.c_str(), row.wanted));
  return {};
}

Result<std::string> real_time_is_allowed(Stage& stage) {
  RETURN_IF_ERROR(limits_are_asked_for(stage));
  std::string config = stage.good_config();
  const std::string at = "prepare = \"never\"\n";
  config.insert(config.rfind(at),
                strf("priority = %d\n", kRowPriority));  // cabin's table is the last
  RETURN_IF_ERROR(stage.write_config(config));
  RETURN_IF_ERROR(stage.start_daemon());
  const auto workers = children_of(stage.daemon_pid());
  const bool fifo = std::any_of(workers.begin(), workers.end(), runs_fifo);
  if (!can_raise_limits()) {
    // Then the limits stay as low as this machine's own, and a model runs at the normal priority.
    if (const std::string seen = stage.standing("cabin");
        seen.empty() || seen.find("load_failed") != std::string::npos)
      return fail(Errc::kInvalid, "without the limit cabin is " + seen);
    return std::string("limits asked for; not shown in force: no CAP_SYS_RESOURCE here");
  }
  const std::string limits = e2e::proc_text(strf("/proc/%d/limits", stage.daemon_pid()));
  const std::string locked = line_of(limits, "Max locked memory");
  if (locked.rfind("unlimited", 0) != 0)
    return fail(Errc::kInvalid, "Max locked memory: " + locked);
  if (!fifo) return fail(Errc::kInvalid, strf("no worker has SCHED_FIFO %d", kRowPriority));
  return strf("SCHED_FIFO %d, memory lock unlimited", kRowPriority);
}

// A queue that steers the car, open to everybody: not in the daemon's view.
Result<std::string> queues_are_out_of_reach(Stage& stage) {
  RETURN_IF_ERROR(write_text_atomic("/dev/shm/msgq_sendcan", "x", 0666));
  RETURN_IF_ERROR(run_tool({"chmod", "666", "/dev/shm/msgq_sendcan"}));
  RETURN_IF_ERROR(stage.start_daemon());
  const std::string seen = stage.standing("cabin");
  if (seen.find("privilege") != std::string::npos || seen.empty())
    return fail(Errc::kInvalid, "cabin is " + seen);
  return std::string("world-writable msgq_sendcan is not seen");
}

Result<std::string> unavailable_is_healthy(Stage& stage) {
  RETURN_IF_ERROR(run_tool({"mv", "/var/lib/modeld/road.bundle", "/var/lib/modeld/away"}));
  const auto watch = [&]() -> Result<std::string> {
    RETURN_IF_ERROR(stage.start_daemon());
    const int pid = stage.daemon_pid();
    pause_ms(2 * kWatchdogMs + kWatchdogMs / 2);
    if (const std::string seen = stage.standing("road"); seen != "UNAVAILABLE(bundle_missing)")
      return fail(Errc::kInvalid, "road is " + (seen.empty() ? "unknown" : seen));
    if (stage.daemon_pid() != pid || stage.number(kDaemon, "NRestarts") != 0)
      return fail(Errc::kInvalid, "modeld was restarted though it only said what is missing");
    return std::string("UNAVAILABLE(bundle_missing) for 5 s, no restart");
  };
  auto verdict = watch();
  RETURN_IF_ERROR(run_tool({"mv", "/var/lib/modeld/away", "/var/lib/modeld/road.bundle"}));
  return verdict;
}

Result<std::string> stops_cleanly(Stage& stage) {
  RETURN_IF_ERROR(stage.start_daemon());
  RETURN_IF_ERROR(stage.wait_for(
      "metrics.prom", [] { return file_exists("/run/modeld/metrics.prom"); },
      5000 * stage.slack()));
  const int64_t before = now_ns();
  RETURN_IF_ERROR(stage.systemctl({"stop", kDaemon}));
  const int64_t ms = (now_ns() - before) / kNsPerMs;
  if (const std::string result = stage.show(kDaemon, "Result"); result != "success")
    return fail(Errc::kInvalid, "stopped: " + result);
  if (file_exists("/run/modeld/metrics.prom"))
    return fail(Errc::kInvalid, "metrics.prom stays behind");
  if (stage.show(kUnavailable, "ActiveState") != "inactive")
    return fail(Errc::kInvalid, "modeld-unavailable speaks after a wanted stop");
  return strf("%lld ms, nothing stays behind", static_cast<long long>(ms));
}

}  // namespace

std::vector<Row> start_rows() {
  return {
      {"boot-selftest-first", "the boot self-test ends before modeld starts",
       boot_selftest_comes_first},
      {"ready-after-selftest", "READY=1 only when every model has passed its self-test",
       ready_after_selftest},
      {"slow-load", "a load beyond TimeoutStartSec is given time (EXTEND_TIMEOUT_USEC)",
       slow_load_gets_time},
      {"serves", "valid outputs under all that the unit forbids", serves},
      {"rights", "no capability, no root, its own view of the files", rights_are_in_force},
      {"real-time", "a worker gets SCHED_FIFO without any capability", real_time_is_allowed},
      {"queues-hidden", "a queue of the driving stack is out of reach", queues_are_out_of_reach},
      {"unavailable-is-healthy", "the watchdog is fed while a model is unavailable",
       unavailable_is_healthy},
      {"clean-stop", "a wanted stop is no failure", stops_cleanly},
  };
}

}  // namespace modeld::systemd_check
