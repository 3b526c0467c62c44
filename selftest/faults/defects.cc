// Deliberate defects of the daemon: functions of the real program, wrapped by the linker
// (--wrap in meson.build), that do their work wrongly when asked to. What finds none of them would
// find nothing.
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/common/model_core.h"
#include "models/common/raw_check.h"

#include "ipc/message.h"

#include "daemon/state_machine.h"

#include "selftest/faults/defect.h"

namespace modeld::faults {
namespace {

using daemon::Event;
using daemon::Standing;
using daemon::Step;
using ipc::Reason;
using models::Finding;
using models::ModelCore;
using Floats = std::span<const float>;

constexpr useconds_t kLateUs = 400'000;
constexpr size_t kLeakBytes = 256;
constexpr uint64_t kCallsPerLeak = 200;

// With every message of the supervisor ("") or every frame of a worker ("worker-"). Kept where a
// compiler cannot see that nobody needs it.
void leak(const std::string& who) {
  static void* volatile kept = nullptr;
  static uint64_t calls = 0;
  ++calls;
  if (has_defect(who + "leaks-memory")) {
    kept = std::malloc(kLeakBytes);
    std::memset(kept, 1, kLeakBytes);
  }
  if (calls % kCallsPerLeak != 0) return;
  if (has_defect(who + "leaks-descriptors")) (void)!dup(STDERR_FILENO);
  pthread_t thread;
  if (has_defect(who + "leaks-threads"))
    (void)!pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          while (true) pause();
        },
        nullptr);
}

}  // namespace

// ---- "skips-finite-check" ----

#define FIND_EQUAL "_ZN6modeld6models14find_all_equalESt4spanIKfLm18446744073709551615EEPKc"
#define FIND_NON_FINITE "_ZN6modeld6models15find_non_finiteESt4spanIKfLm18446744073709551615EEPKc"
Finding real_find_all_equal(Floats values, const char* name) __asm__("__real_" FIND_EQUAL);
Finding wrap_find_all_equal(Floats values, const char* name) __asm__("__wrap_" FIND_EQUAL);
Finding real_find_non_finite(Floats values, const char* name) __asm__("__real_" FIND_NON_FINITE);
Finding wrap_find_non_finite(Floats values, const char* name) __asm__("__wrap_" FIND_NON_FINITE);

Finding wrap_find_all_equal(Floats values, const char* name) {
  return has_defect("skips-finite-check") ? Finding{} : real_find_all_equal(values, name);
}
Finding wrap_find_non_finite(Floats values, const char* name) {
  return has_defect("skips-finite-check") ? Finding{} : real_find_non_finite(values, name);
}

// ---- "keeps-state" ----

#define CORE_RESET "_ZN6modeld6models9ModelCore5resetEv"
Status real_core_reset(ModelCore* self) __asm__("__real_" CORE_RESET);
Status wrap_core_reset(ModelCore* self) __asm__("__wrap_" CORE_RESET);

Status wrap_core_reset(ModelCore* self) {
  return has_defect("keeps-state") ? Status() : real_core_reset(self);
}

// ---- a worker's leaks ----

#define CORE_COMMIT "_ZN6modeld6models9ModelCore6commitEv"
void real_core_commit(ModelCore* self) __asm__("__real_" CORE_COMMIT);
void wrap_core_commit(ModelCore* self) __asm__("__wrap_" CORE_COMMIT);

void wrap_core_commit(ModelCore* self) {
  leak("worker-");
  real_core_commit(self);
}

// ---- "wrong-reason", "tells-late" ----

#define NEXT "_ZN6modeld6daemon4nextENS0_8StandingENS0_5EventENS_3ipc6ReasonEb"
Step real_next(Standing from, Event event, Reason reason, bool full) __asm__("__real_" NEXT);
Step wrap_next(Standing from, Event event, Reason reason, bool full) __asm__("__wrap_" NEXT);

Step wrap_next(Standing from, Event event, Reason reason, bool full) {
  if (event == Event::kFault && reason == Reason::kTimeout) {
    if (has_defect("tells-late")) usleep(kLateUs);
    if (has_defect("wrong-reason")) reason = Reason::kDeviceLost;
  }
  return real_next(from, event, reason, full);
}

// ---- "never-reaps", "never-kills", "repeats-last-output", "no-heartbeats", leaks ----

extern "C" {
pid_t __real_waitpid(pid_t pid, int* status, int options);
pid_t __wrap_waitpid(pid_t pid, int* status, int options);
int __real_kill(pid_t pid, int signal);
int __wrap_kill(pid_t pid, int signal);
int __real_zmq_send(void* socket, const void* bytes, size_t size, int flags);
int __wrap_zmq_send(void* socket, const void* bytes, size_t size, int flags);
}

pid_t __wrap_waitpid(pid_t pid, int* status, int options) {
  return has_defect("never-reaps") ? 0 : __real_waitpid(pid, status, options);
}

int __wrap_kill(pid_t pid, int signal) {
  return has_defect("never-kills") ? 0 : __real_kill(pid, signal);
}

int __wrap_zmq_send(void* socket, const void* bytes, size_t size, int flags) {
  leak("");
  static std::map<void*, std::vector<std::byte>> last_good;
  const std::span<const std::byte> message(static_cast<const std::byte*>(bytes), size);
  ipc::Header header;
  const auto topic = ipc::read_topic(message, header);
  const bool is_output =
      topic.ok() && (*topic == ipc::Topic::kRoad || *topic == ipc::Topic::kCabin);
  if (!is_output) return __real_zmq_send(socket, bytes, size, flags);
  if (header.valid) {
    last_good[socket].assign(message.begin(), message.end());
  } else if (has_defect("no-heartbeats")) {
    return static_cast<int>(size);
  } else if (has_defect("repeats-last-output") && !last_good[socket].empty()) {
    const auto& good = last_good[socket];
    return __real_zmq_send(socket, good.data(), good.size(), flags);
  }
  return __real_zmq_send(socket, bytes, size, flags);
}

}  // namespace modeld::faults
