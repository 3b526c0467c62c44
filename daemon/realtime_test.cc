// With and without the limits that real time needs. Every case is a child of its own: what it sets
// is not taken back.
#include "daemon/realtime.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "hal/base/futex.h"
#include "hal/base/status.h"
#include "hal/base/text.h"

#include "daemon/test_child.h"

namespace modeld::daemon {
namespace {

using ::testing::HasSubstr;

// No right to real time any more, and limits of zero.
void give_up_rights() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  syscall(SYS_capset, &header, data);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_RTPRIO, &none);
  setrlimit(RLIMIT_MEMLOCK, &none);
}

int64_t locked_kib() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("VmLck:", 0) == 0)
      return parse_int(trim(line.substr(6, line.size() - 6 - 3))).value_or(-1);
  }
  return -1;
}

std::string parts_of(const RealtimeResult& r) {
  std::string out;
  for (const RealtimePart part : kRealtimeParts) {
    if (r.missing.has(part)) out += std::string(out.empty() ? "" : " ") + realtime_part_name(part);
  }
  return out.empty() ? "nothing" : out;
}

void tell(const ChildSay& say, const RealtimeResult& r) {
  say("missing: " + parts_of(r));
  for (const std::string& text : r.texts) say(text);
}

bool may_have_real_time() {
  const ChildReport r = in_child([](const ChildSay& say) {
    sched_param p{};
    p.sched_priority = 1;
    say(sched_setscheduler(0, SCHED_FIFO, &p) == 0 ? "yes" : "no");
  });
  return r.text == "yes\n";
}

// A thread that waits until it is let go, as a device's does.
class Sleeper {
 public:
  Sleeper() : thread_([this] { loop(); }) {
    while (tid_.load() == 0) std::this_thread::yield();
  }
  ~Sleeper() {
    go_.store(1);
    futex_wake_all(&go_);
    thread_.join();
  }
  pid_t tid() const { return tid_.load(); }

 private:
  void loop() {
    tid_.store(static_cast<pid_t>(syscall(SYS_gettid)));
    while (go_.load() == 0) futex_wait(&go_, 0, 1'000'000'000);
  }
  std::atomic<pid_t> tid_{0};
  std::atomic<uint32_t> go_{0};
  std::thread thread_;
};

TEST(Realtime, WithTheRightsEveryThreadIsInTheClassAndMemoryIsLocked) {
  if (!may_have_real_time()) GTEST_SKIP() << "SKIPPED: no right to SCHED_FIFO here";
  const ChildReport r = in_child([](const ChildSay& say) {
    const Sleeper device;
    tell(say, apply_realtime({.priority = 7, .cpus = {}}));
    for (const pid_t thread : {pid_t{0}, device.tid()}) {
      sched_param p{};
      sched_getparam(thread, &p);
      say(strf("%s %d", sched_getscheduler(thread) == SCHED_FIFO ? "fifo" : "other",
               p.sched_priority));
    }
    say(locked_kib() > 0 ? "locked" : "not locked");
  });
  EXPECT_EQ(r.text, "missing: nothing\nfifo 7\nfifo 7\nlocked\n");
}

TEST(Realtime, WithoutTheRightsItIsToldAndDoneWithout) {
  const ChildReport r = in_child([](const ChildSay& say) {
    give_up_rights();
    tell(say, apply_realtime({.priority = 7, .cpus = {}}));
    say(sched_getscheduler(0) == SCHED_OTHER ? "other" : "fifo");
    say(locked_kib() == 0 ? "not locked" : "locked");
  });
  EXPECT_THAT(r.text, HasSubstr("missing: memory priority\n"));
  EXPECT_THAT(r.text, HasSubstr("memory cannot be locked: "));
  EXPECT_THAT(r.text,
              HasSubstr("(RLIMIT_MEMLOCK is 0 KiB), running with memory that may be paged"));
  EXPECT_THAT(r.text, HasSubstr("no real-time priority 7: Operation not permitted (RLIMIT_RTPRIO "
                                "is 0), running at the normal one\n"));
  EXPECT_THAT(r.text, HasSubstr("other\nnot locked\n"));
  EXPECT_EQ(r.exit_code, 0);
}

// Mappings made later would fail past the limit, and a camera that cannot be mapped is worse than
// one that can be paged out.
TEST(Realtime, AFiniteLimitLocksWhatIsThereAndLeavesLaterMappingsAlone) {
  const ChildReport r = in_child([](const ChildSay& say) {
    const rlimit wide{int64_t{1} << 50, int64_t{1} << 50};
    const bool raised = setrlimit(RLIMIT_MEMLOCK, &wide) == 0;
    if (!raised) return say("cannot raise the limit");
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    syscall(SYS_capset, &header, data);
    const RealtimeResult result = apply_realtime({.priority = 1, .cpus = {}});
    say(result.missing.has(RealtimePart::kMemory) ? "told" : "not told");
    for (const std::string& text : result.texts) say(text);
    say(locked_kib() > 0 ? "locked" : "not locked");
  });
  if (r.text == "cannot raise the limit\n") GTEST_SKIP() << "SKIPPED: RLIMIT_MEMLOCK cannot rise";
  EXPECT_THAT(r.text, HasSubstr("told\nmemory is locked as of now, but not what is mapped later"));
  EXPECT_THAT(r.text, ::testing::EndsWith("locked\n"));
}

TEST(Realtime, PriorityZeroTouchesNothing) {
  const ChildReport r = in_child([](const ChildSay& say) {
    give_up_rights();
    tell(say, apply_realtime({}));
    say(sched_getscheduler(0) == SCHED_OTHER && locked_kib() == 0 ? "as before" : "changed");
  });
  EXPECT_EQ(r.text, "missing: nothing\nas before\n");
}

TEST(Realtime, ThreadsMoveToTheCpusAndPinnedOnesStay) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  std::vector<int> cpus;
  for (int c = 0; c < CPU_SETSIZE && cpus.size() < 2; ++c) {
    if (CPU_ISSET(c, &all)) cpus.push_back(c);
  }
  if (cpus.size() < 2) GTEST_SKIP() << "SKIPPED: one CPU";
  const ChildReport r = in_child([&](const ChildSay& say) {
    const Sleeper pinned, free;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus[1], &one);
    sched_setaffinity(pinned.tid(), sizeof one, &one);
    tell(say, apply_realtime({.priority = 0, .cpus = cpus}));
    for (const pid_t thread : {pid_t{0}, pinned.tid(), free.tid()}) {
      cpu_set_t now;
      sched_getaffinity(thread, sizeof now, &now);
      std::string text;
      for (const int c : cpus) text += CPU_ISSET(c, &now) ? '1' : '0';
      say(text + strf(" of %d", CPU_COUNT(&now)));
    }
  });
  EXPECT_EQ(r.text, "missing: nothing\n11 of 2\n01 of 1\n11 of 2\n");
}

TEST(Realtime, CpusThatAreNotThereAreToldAndTheOthersUsed) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  const ChildReport some = in_child([&](const ChildSay& say) {
    tell(say, apply_realtime({.priority = 0, .cpus = {first, 1000}}));
    cpu_set_t now;
    sched_getaffinity(0, sizeof now, &now);
    say(CPU_ISSET(first, &now) && CPU_COUNT(&now) == 1 ? "there" : "elsewhere");
  });
  EXPECT_EQ(some.text,
            strf("missing: cpus\ncpus %d,1000: only %d may be used, running there\nthere\n", first,
                 first));
  const ChildReport none = in_child([&](const ChildSay& say) {
    tell(say, apply_realtime({.priority = 0, .cpus = {1000}}));
    cpu_set_t now;
    sched_getaffinity(0, sizeof now, &now);
    say(CPU_EQUAL(&now, &all) ? "on any" : "moved");
  });
  EXPECT_EQ(none.text,
            "missing: cpus\ncpus 1000: none of them may be used, running on any\non any\n");
}

TEST(Realtime, ChildrenOfASupervisorStartInTheNormalClass) {
  if (!may_have_real_time()) GTEST_SKIP() << "SKIPPED: no right to SCHED_FIFO here";
  const ChildReport r = in_child([](const ChildSay& say) {
    tell(say, apply_realtime({.priority = 8, .cpus = {}, .children_normal = true}));
    const pid_t child = fork();
    if (child == 0) {
      say(sched_getscheduler(0) == SCHED_OTHER ? "child: other" : "child: real time");
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    say((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO ? "parent: fifo"
                                                                     : "parent: other");
  });
  EXPECT_EQ(r.text, "missing: nothing\nchild: other\nparent: fifo\n");
}

}  // namespace
}  // namespace modeld::daemon
