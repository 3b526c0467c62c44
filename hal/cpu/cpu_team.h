// The threads of one CPU device: woken once per run, then in step by a spin barrier between
// kernels. This is not a thread pool: all threads walk the same list, and each knows its share
// without asking.
// Contract: thread 0 is the caller of run(); the barrier spins kSpins pauses, then yields, so a
// machine with fewer CPUs than threads still moves on. Workers sleep in the kernel between runs.
// Threading: run() by thread 0 only. stop() once, from thread 0's owner.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hal/base/status.h"

namespace modeld::hal {

class SpinBarrier {
 public:
  explicit SpinBarrier(uint32_t threads) : threads_(threads) {}
  void wait();

 private:
  static constexpr int kSpins = 4000;  // about 100 us: longer than most steps of the other thread
  const uint32_t threads_;
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
};

// One walk over a list: called on every thread with its number.
class TeamTask {
 public:
  virtual ~TeamTask() = default;
  virtual void walk(uint32_t thread, uint32_t threads, SpinBarrier* barrier) = 0;
};

// Shared by the device and its worker threads, so that threads that cannot be joined may be left
// behind.
class CpuTeam {
 public:
  explicit CpuTeam(uint32_t threads) : threads_(threads), barrier_(threads) {}
  uint32_t threads() const { return threads_; }
  // Body of worker thread t >= 1; returns after stop().
  void work(uint32_t thread);
  // Thread 0: wakes the workers and walks with them; returns when thread 0 is through (the task
  // ends with a barrier).
  void run(TeamTask& task);
  void stop();

 private:
  const uint32_t threads_;
  SpinBarrier barrier_;
  alignas(64) std::atomic<uint32_t> sequence_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint32_t> stopping_{0};
  std::atomic<TeamTask*> task_{nullptr};
};

}  // namespace modeld::hal
