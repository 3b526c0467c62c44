// A bound command list in memory: words, operations, steps; walked by every thread of the team.
// This is not a queue: it knows nothing of order between lists, only of order inside one.
// Contract: words are written by the submitter only while the list is not in flight. A step is
// either one kernel that all threads share (core ids t, t + P, ...) or a group of operations for
// thread 0; a barrier follows each step.
// Threading: walk() concurrently by all threads of the team; everything else by the owner while
// idle.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "hal/cpu/cpu_program.h"
#include "hal/cpu/cpu_team.h"
#include "hal/device.h"

namespace modeld::hal {

struct CpuOp {
  enum class Kind : uint8_t { kLaunch, kCopy, kWrite32, kWrite64, kWait, kSignal, kPoll, kStamp };
  Kind kind = Kind::kLaunch;
  bool is_parallel = false;             // launch: may have more than one range
  uint32_t words = 0;                   // first word; launch: ranges, then the arguments
  uint32_t ref = 0, mask = 0;           // poll
  const CpuProgram* program = nullptr;  // launch
  SignalSlot* slot =
      nullptr;  // wait, signal, stamp: the pool's slot when the address is known at bind
};

struct CpuStep {
  bool is_parallel = false;
  uint32_t first = 0, count = 0;
};

// Launch times, collected by thread 0 when DeviceConfig.profile is set. Threading: one mutex, off
// the normal path.
class CpuProfile {
 public:
  void add(const std::string& name, int64_t start_ns, int64_t end_ns);
  std::vector<ProfileRange> take();

 private:
  static constexpr size_t kMaxRanges = 1 << 16;  // later ones are dropped until somebody takes them
  std::mutex mutex_;
  std::vector<ProfileRange> ranges_;
};

class CpuRun final : public TeamTask {
 public:
  std::string label;
  std::vector<uint64_t> words;
  std::vector<CpuOp> ops;
  // Programs and buffers of the recording (shared: callers may drop theirs while the list lives).
  std::vector<std::shared_ptr<Program>> programs;
  std::vector<Buffer> buffers;

  // After recording: groups operations into steps. `closed` makes waits inside the list give up.
  void seal(uint32_t threads, const std::atomic<uint32_t>* closed, CpuProfile* profile);
  bool needs_team() const { return needs_team_; }
  const std::vector<CpuStep>& steps() const { return steps_; }
  // True when a wait gave up because the device was closed; the rest of the list was skipped.
  bool was_aborted() const { return aborted_.load(std::memory_order_acquire); }

  void walk(uint32_t thread, uint32_t threads, SpinBarrier* barrier) override;

 private:
  void run_group(const CpuStep& step);
  void run_op(const CpuOp& op);
  void run_ranges(const CpuOp& op, uint32_t thread, uint32_t threads) const;
  template <class Ready>
  void block_until(const Ready& ready, const void* futex_word);

  std::vector<CpuStep> steps_;
  const std::atomic<uint32_t>* closed_ = nullptr;
  CpuProfile* profile_ = nullptr;
  bool needs_team_ = false;
  std::atomic<bool> aborted_{false};
};

}  // namespace modeld::hal
