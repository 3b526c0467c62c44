// Two calls around the futex system call, and the spin hint; building blocks of signals and worker
// threads. This is not a lock. Contract: process-private; futex_wait returns on wake-up, changed
// value, timeout or a signal, so callers look again in a loop. Threading: any thread.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace modeld {

inline void futex_wait(const void* word32, uint32_t expected, int64_t timeout_ns) {
  if (timeout_ns <= 0) return;
  const timespec limit{timeout_ns / 1'000'000'000, static_cast<long>(timeout_ns % 1'000'000'000)};
  syscall(SYS_futex, word32, FUTEX_WAIT_PRIVATE, expected, &limit, nullptr, 0);
}

inline void futex_wake_all(const void* word32) {
  syscall(SYS_futex, word32, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace modeld
