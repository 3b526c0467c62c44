#include "hal/cpu/cpu_team.h"

#include <sched.h>

#include "hal/base/clock.h"
#include "hal/base/futex.h"

namespace modeld::hal {

namespace {
constexpr int kParkSpins = 2000;  // speed.md 10
}

void SpinBarrier::wait() {
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    return;
  }
  for (int i = 0; generation_.load(std::memory_order_acquire) == generation; ++i) {
    if (i < kSpins) {
      cpu_pause();
    } else {
      sched_yield();
    }
  }
}

void CpuTeam::work(uint32_t thread) {
  uint32_t seen = 0;
  while (true) {
    uint32_t now = sequence_.load(std::memory_order_acquire);
    for (int i = 0; now == seen && i < kParkSpins; ++i) {
      cpu_pause();
      now = sequence_.load(std::memory_order_acquire);
    }
    if (now == seen) {
      // Count first, then look again: run() stores first, then counts. One of the two always sees
      // the other.
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      if (sequence_.load(std::memory_order_seq_cst) == seen)
        futex_wait(&sequence_, seen, kNsPerSecond);
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
      continue;
    }
    seen = now;
    if (stopping_.load(std::memory_order_acquire) != 0) return;
    task_.load(std::memory_order_acquire)->walk(thread, threads_, &barrier_);
  }
}

void CpuTeam::run(TeamTask& task) {
  task_.store(&task, std::memory_order_release);
  sequence_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) futex_wake_all(&sequence_);
  task.walk(0, threads_, &barrier_);
}

void CpuTeam::stop() {
  stopping_.store(1, std::memory_order_release);
  sequence_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(&sequence_);
}

}  // namespace modeld::hal
