// Timeline signals: a 64-bit value that only grows plus a raw timestamp, readable by host and
// device. This is not a condition variable: every wait says a value and a deadline, and "greater or
// equal" satisfies it. Contract: set() by the host releases device and host waits. A slot goes back
// to its pool with the last handle. Threading: value(), set() and wait() from any thread.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <memory>
#include <utility>

#include "hal/base/clock.h"
#include "hal/base/status.h"

namespace modeld::hal {

using DevAddr = uint64_t;

// Device-visible: value at +0, stamp at +8 (ns on CPU). `waiters` is host-only and tells set()
// whether to wake anybody.
struct alignas(64) SignalSlot {
  std::atomic<uint64_t> value{0};
  std::atomic<uint64_t> stamp{0};
  std::atomic<uint32_t> waiters{0};
};

// A place in one device's order of submissions; comparable within one device and epoch.
struct TimelinePoint {
  uint32_t device = 0;
  uint64_t epoch = 0;
  uint64_t value = 0;
  auto operator<=>(const TimelinePoint&) const = default;
};

// Move-only handle; `pool` keeps the memory behind the slot alive and takes the slot back (shared:
// signals may outlive the public device handle).
class Signal {
 public:
  Signal() = default;
  Signal(SignalSlot* slot, std::shared_ptr<void> lease) : slot_(slot), lease_(std::move(lease)) {}
  Signal(Signal&&) noexcept = default;
  Signal& operator=(Signal&&) noexcept = default;

  uint64_t value() const { return slot_->value.load(std::memory_order_acquire); }
  void set(uint64_t value);
  // kTimeout past the deadline, naming wish and value seen.
  Status wait(uint64_t value, Deadline deadline) const;
  DevAddr value_addr() const { return reinterpret_cast<DevAddr>(&slot_->value); }
  DevAddr stamp_addr() const { return reinterpret_cast<DevAddr>(&slot_->stamp); }
  int64_t stamp_ns() const {
    return static_cast<int64_t>(slot_->stamp.load(std::memory_order_acquire));
  }
  SignalSlot* slot() const { return slot_; }

 private:
  SignalSlot* slot_ = nullptr;
  std::shared_ptr<void> lease_;
};

// Building blocks for backends. set_slot stores and wakes; wait_slot spins briefly, then sleeps in
// the kernel, and returns false past the deadline or, if given, once *stop is non-zero (looked at
// every 50 ms).
void set_slot(SignalSlot& slot, uint64_t value);
bool wait_slot(const SignalSlot& slot,
               uint64_t value,
               Deadline deadline,
               const std::atomic<uint32_t>* stop = nullptr);

}  // namespace modeld::hal
