// Real time from the configuration, with the rights it needs and without them: the first is seen in
// what the kernel says of the processes, the second costs a metric and a line of the log, nothing
// else.
#include <sched.h>

#include "hal/base/text.h"

#include "selftest/e2e/harness.h"

namespace modeld::e2e {
namespace {

using ipc::ModelState;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kLoadMs = 60'000;

struct ThreadView {
  int policy = -1;
  int priority = -1;
  bool on_first_cpu_only = false;
  bool writes_metrics = false;  // the supervisor's thread for metrics.prom
  bool operator==(const ThreadView&) const = default;
};

std::vector<ThreadView> threads_of(int pid) {
  std::vector<ThreadView> out;
  const auto names = list_dir(strf("/proc/%d/task", pid));
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const auto tid = static_cast<pid_t>(parse_int(name).value_or(-1));
    sched_param p{};
    cpu_set_t cpus;
    if (sched_getparam(tid, &p) != 0 || sched_getaffinity(tid, sizeof cpus, &cpus) != 0) continue;
    out.push_back({sched_getscheduler(tid) & ~SCHED_RESET_ON_FORK, p.sched_priority,
                   CPU_COUNT(&cpus) == 1 && CPU_ISSET(0, &cpus),
                   proc_text(strf("/proc/%d/task/%d/comm", pid, tid)) == "metrics_file\n"});
  }
  return out;
}

int64_t locked_kib(int pid) {
  const std::string status = proc_text(strf("/proc/%d/status", pid));
  const size_t at = status.find("VmLck:");
  return at == std::string::npos ? -1 : std::strtoll(status.c_str() + at + 6, nullptr, 10);
}

bool may_have_real_time() {
  return run({"chrt", "-f", "1", "true"}).exit_code == 0;
}

// Limits of zero, and as root without the two capabilities that stand above them.
std::vector<std::string> without_rights() {
  std::vector<std::string> out;
  if (geteuid() == 0)
    out = {"/usr/bin/setpriv", "--bounding-set", "-sys_nice,-ipc_lock", "--inh-caps",
           "-sys_nice,-ipc_lock"};
  out.insert(out.end(), {"/usr/bin/prlimit", "--rtprio=0", "--memlock=0"});
  return out;
}

RigOptions pair_of(const std::string& road) {
  RigOptions o;
  o.bundles = {{"road", tiny_bundle("road")}, {"cabin", tiny_bundle("cabin")}};
  o.model_extra["road"] = road;
  return o;
}

void expect_ready(Rig& rig) {
  for (const char* model : {"road", "cabin"})
    ASSERT_TRUE(rig.tap().wait_state(model, ModelState::kReady, kLoadMs)) << model;
}

// The Prometheus file, once it holds `line`; what it holds at the deadline.
std::string metrics_with(const Rig& rig, Tap& tap, const std::string& line) {
  std::string text;
  tap.wait_for(
      [&] {
        text = proc_text(join_path(rig.dir(), "metrics.prom"));
        return text.find(line) != std::string::npos;
      },
      kLoadMs);
  return text;
}

std::string metric(const char* process, const char* part, int value) {
  return strf("modeld_realtime_missing{process=\"%s\",part=\"%s\"} %d\n", process, part, value);
}

TEST(RealTime, WithTheRightsEveryThreadHasItsClassAndPlaceAndMemoryIsLocked) {
  if (!may_have_real_time()) GTEST_SKIP() << "SKIPPED: no right to SCHED_FIFO here";
  Rig rig(pair_of("priority = 5\ncpus = [0]\n"));
  expect_ready(rig);
  const int road = rig.worker_pid("road");
  const std::vector<ThreadView> threads = threads_of(road);
  EXPECT_GE(threads.size(), 3u) << "main, queue and team";
  for (const ThreadView& t : threads) EXPECT_EQ(t, (ThreadView{SCHED_FIFO, 5, true}));
  EXPECT_GT(locked_kib(road), 0);
  // The supervisor stands above, on any CPU, but for the thread that waits for disks; the other
  // worker asked for nothing.
  int writers = 0;
  for (const ThreadView& t : threads_of(rig.daemon().pid())) {
    writers += t.writes_metrics ? 1 : 0;
    EXPECT_EQ(t.policy, t.writes_metrics ? SCHED_OTHER : SCHED_FIFO);
    EXPECT_EQ(t.priority, t.writes_metrics ? 0 : 6);
    EXPECT_FALSE(t.on_first_cpu_only);
  }
  EXPECT_EQ(writers, 1);
  EXPECT_GT(locked_kib(rig.daemon().pid()), 0);
  const int cabin = rig.worker_pid("cabin");
  for (const ThreadView& t : threads_of(cabin)) EXPECT_EQ(t.policy, SCHED_OTHER);
  EXPECT_EQ(locked_kib(cabin), 0);
  const std::string text = metrics_with(rig, rig.tap(), metric("road", "priority", 0));
  for (const char* process : {"supervisor", "road", "cabin"}) {
    for (const char* part : {"memory", "priority", "cpus"})
      EXPECT_THAT(text, HasSubstr(metric(process, part, 0)));
  }
  std::printf("road: %zu threads SCHED_FIFO 5 on CPU 0, %lld KiB locked; supervisor SCHED_FIFO 6\n",
              threads.size(), static_cast<long long>(locked_kib(road)));
}

TEST(RealTime, WithoutTheRightsItRunsAndSaysSo) {
  RigOptions options = pair_of("priority = 5\ncpus = [1000]\n");
  options.daemon_under = without_rights();
  Rig rig(options);
  expect_ready(rig);
  const int road = rig.worker_pid("road");
  for (const ThreadView& t : threads_of(road)) EXPECT_EQ(t.policy, SCHED_OTHER);
  EXPECT_EQ(locked_kib(road), 0);
  const std::string text = metrics_with(rig, rig.tap(), metric("road", "memory", 1));
  for (const char* part : {"memory", "priority", "cpus"}) {
    EXPECT_THAT(text, HasSubstr(metric("road", part, 1)));
    EXPECT_THAT(text, HasSubstr(metric("cabin", part, 0)));
  }
  EXPECT_THAT(text, HasSubstr(metric("supervisor", "memory", 1)));
  EXPECT_THAT(text, HasSubstr(metric("supervisor", "priority", 1)));
  const std::string log = rig.log_text();
  for (const char* line :
       {"road: no real-time priority 5: Operation not permitted (RLIMIT_RTPRIO is 0), running at "
        "the normal one",
        "road: memory cannot be locked: ",
        "road: cpus 1000: none of them may be used, running on any",
        "supervisor: no real-time priority 6: "})
    EXPECT_THAT(log, HasSubstr(line));
  EXPECT_THAT(log, Not(HasSubstr("cabin: no real-time")));
  EXPECT_FALSE(rig.tap().find_fault("road").has_value());
}

}  // namespace
}  // namespace modeld::e2e
