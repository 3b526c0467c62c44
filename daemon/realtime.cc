#include "daemon/realtime.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hal/base/fs.h"
#include "hal/base/status.h"
#include "hal/base/text.h"

namespace modeld::daemon {
namespace {

constexpr size_t kStackBytes = 128 * 1024;  // deeper than any frame was seen to go

std::vector<pid_t> own_threads() {
  std::vector<pid_t> out;
  const auto names = list_dir("/proc/self/task");
  if (!names.ok()) return {0};  // at least the caller
  for (const std::string& name : *names) {
    if (const auto tid = parse_int(name); tid.ok()) out.push_back(static_cast<pid_t>(*tid));
  }
  return out;
}

// Touched once, so that the deepest call of a frame finds its stack there.
[[gnu::noinline]] void touch_stack() {
  char room[kStackBytes];
  memset(room, 0, sizeof room);
  asm volatile("" : : "r"(room) : "memory");  // nobody may drop it as unused
}

bool has_capability(unsigned number) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  return (data[number / 32].effective >> (number % 32) & 1) != 0;
}

std::string limit_text(int resource, const char* name, uint64_t unit, const char* unit_name) {
  rlimit limit{};
  getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return std::string(name) + " is unlimited";
  return strf("%s is %llu%s", name, static_cast<unsigned long long>(limit.rlim_cur / unit),
              unit_name);
}

bool may_lock_without_limit() {
  rlimit limit{};
  return has_capability(CAP_IPC_LOCK) ||
         (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY);
}

// Pages are locked as they are touched: the golden run touched what a frame needs, and the rest of
// a bundle of gigabytes is not read in. By its number, as sanitizers replace the library's call.
std::string lock_memory() {
  touch_stack();
  // Under a limit, mappings to come would fail past it: better unlocked than not there.
  const bool all = may_lock_without_limit();
  const int flags = MCL_CURRENT | MCL_ONFAULT | (all ? MCL_FUTURE : 0);
  const std::string limit = limit_text(RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK", 1024, " KiB");
  if (syscall(SYS_mlockall, flags) != 0)
    return strf("memory cannot be locked: %s (%s), running with memory that may be paged out",
                strerror(errno), limit.c_str());
  return all ? "" : "memory is locked as of now, but not what is mapped later (" + limit + ")";
}

std::string set_class(const RealtimeWish& wish) {
  sched_param p{};
  p.sched_priority = wish.priority;
  const int policy = SCHED_FIFO | (wish.children_normal ? SCHED_RESET_ON_FORK : 0);
  for (const pid_t thread : own_threads()) {
    if (sched_setscheduler(thread, policy, &p) == 0 || errno == ESRCH) continue;
    return strf("no real-time priority %d: %s (%s), running at the normal one", wish.priority,
                strerror(errno), limit_text(RLIMIT_RTPRIO, "RLIMIT_RTPRIO", 1, "").c_str());
  }
  return "";
}

cpu_set_t set_of(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int c : cpus) {
    if (c >= 0 && c < CPU_SETSIZE) CPU_SET(static_cast<size_t>(c), &set);
  }
  return set;
}

std::string list_of(const std::vector<int>& cpus) {
  std::string out;
  for (const int c : cpus) out += (out.empty() ? "" : ",") + std::to_string(c);
  return out;
}

// A thread that is pinned more narrowly already (a device's) stays where it is.
std::string set_cpus(const std::vector<int>& cpus) {
  const std::vector<int> usable = usable_cpus(cpus);
  if (usable.empty()) return "cpus " + list_of(cpus) + ": none of them may be used, running on any";
  const cpu_set_t wanted = set_of(usable);
  for (const pid_t thread : own_threads()) {
    cpu_set_t now, common;
    if (sched_getaffinity(thread, sizeof now, &now) == 0) {
      CPU_AND(&common, &now, &wanted);
      if (CPU_EQUAL(&common, &now)) continue;
    }
    if (sched_setaffinity(thread, sizeof wanted, &wanted) == 0 || errno == ESRCH) continue;
    return strf("cpus %s cannot be set: %s, running on any", list_of(cpus).c_str(),
                strerror(errno));
  }
  if (usable.size() == cpus.size()) return "";
  return "cpus " + list_of(cpus) + ": only " + list_of(usable) + " may be used, running there";
}

}  // namespace

const char* realtime_part_name(RealtimePart part) {
  switch (part) {
    case RealtimePart::kMemory:
      return "memory";
    case RealtimePart::kPriority:
      return "priority";
    case RealtimePart::kCpus:
      return "cpus";
  }
  return "?";
}

std::vector<int> usable_cpus(const std::vector<int>& cpus) {
  std::vector<int> out;
  cpu_set_t before;
  if (sched_getaffinity(0, sizeof before, &before) != 0) return out;
  // Asked by trying: the CPUs of the process's control group are told nowhere else for sure.
  for (const int c : cpus) {
    const cpu_set_t one = set_of({c});
    if (CPU_COUNT(&one) == 1 && sched_setaffinity(0, sizeof one, &one) == 0) out.push_back(c);
  }
  sched_setaffinity(0, sizeof before, &before);
  return out;
}

RealtimeResult apply_realtime(const RealtimeWish& wish) {
  RealtimeResult result;
  const auto note = [&](RealtimePart part, std::string text) {
    if (text.empty()) return;
    result.missing.add(part);
    result.texts.push_back(std::move(text));
  };
  if (!wish.cpus.empty()) note(RealtimePart::kCpus, set_cpus(wish.cpus));
  if (wish.priority == 0) return result;
  note(RealtimePart::kMemory, lock_memory());
  note(RealtimePart::kPriority, set_class(wish));
  return result;
}

}  // namespace modeld::daemon
