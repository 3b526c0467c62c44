// What a CPU device and everything made by it share: timeline, submission ring, signal pool, team,
// profile.
// Contract: submissions run in ticket order; a ticket is the timeline value that its end sets. The
// ring holds kRingRuns submissions; a submitter waits (bounded, restarted by progress) for room.
// Threading: push and waits from any thread; serve() is the body of the one thread that owns the
// queue.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "hal/cpu/cpu_program.h"
#include "hal/cpu/cpu_run.h"
#include "hal/cpu/cpu_team.h"
#include "hal/device.h"

namespace modeld::hal {

// Signal slots in chunks with stable addresses. Threading: any thread, one mutex.
class SignalPool : public std::enable_shared_from_this<SignalPool> {
 public:
  Signal make(uint64_t initial);
  // The slot whose value lies at this address, or null.
  SignalSlot* find(DevAddr value_addr);

 private:
  static constexpr size_t kChunk = 64;
  using Chunk = std::array<SignalSlot, kChunk>;
  void give_back(SignalSlot* slot);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<SignalSlot*> free_;
};

class CpuCore {
 public:
  static constexpr uint64_t kRingRuns = 256;

  CpuCore(DeviceInfo info, const DeviceConfig& config, uint64_t epoch);

  const DeviceInfo info;
  const DeviceConfig config;
  const uint64_t epoch;
  CpuTeam team;
  CpuProfile profile;
  CpuProgramLoader programs;
  const std::shared_ptr<SignalPool> signals;  // shared: signals may outlive the core

  // The value that will be signalled, or kDeviceLost / kTimeout. `run` must stay until the value is
  // reached.
  Result<uint64_t> push(CpuRun& run);
  // kTimeout past the deadline, kDeviceLost when the device closed before the value was reached.
  Status wait_value(uint64_t value, Deadline deadline) const;
  // The same with a limit that starts anew whenever the timeline moves.
  Status wait_progress(uint64_t value, int64_t limit_ms) const;
  uint64_t completed() const { return timeline_.value.load(std::memory_order_acquire); }
  uint64_t last_pushed() const { return next_.load(std::memory_order_acquire) - 1; }

  void serve();
  void close();  // serve() ends after the kernel it is in
  bool is_closed() const { return closed_.load(std::memory_order_acquire) != 0; }
  const std::atomic<uint32_t>* closed_flag() const { return &closed_; }
  // False when the serving thread did not end in time (a kernel hangs).
  bool wait_served(Deadline deadline) const;

 private:
  struct Entry {
    std::atomic<uint64_t> ticket{0};
    CpuRun* run = nullptr;
  };

  bool wait_for_entry(const Entry& entry, uint64_t ticket);
  void execute(CpuRun& run, uint64_t ticket);
  void break_if_asked(uint64_t ticket) const;
  void ring_doorbell();

  std::array<Entry, kRingRuns> ring_;
  alignas(64) std::atomic<uint64_t> next_;
  alignas(64) SignalSlot timeline_;
  SignalSlot served_;
  alignas(64) std::atomic<uint32_t> doorbell_{0};
  std::atomic<uint32_t> sleeping_{0};
  std::atomic<uint32_t> closed_{0};
  std::atomic<uint32_t> gone_{0};  // serve() has returned: nothing more will be signalled
  const int64_t fault_hang_at_;    // ticket of the run that never ends, 0: none
  const int64_t fault_delay_ms_;
};

}  // namespace modeld::hal
