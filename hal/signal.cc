#include "hal/signal.h"

#include <algorithm>
#include <cstddef>

#include "hal/base/futex.h"

namespace modeld::hal {

namespace {

// speed.md 10: a worker that spins this long before it sleeps rarely sleeps inside one replay.
constexpr int kSpins = 2000;
constexpr int64_t kSliceNs = 50 * kNsPerMs;  // bound of one kernel sleep, so that a stop is seen

static_assert(offsetof(SignalSlot, value) == 0 && offsetof(SignalSlot, stamp) == 8);

// The low half of the value (little endian). Values grow by less than 2^32 between two looks, so it
// always changes.
const void* futex_word(const SignalSlot& slot) {
  return &slot.value;
}

}  // namespace

void set_slot(SignalSlot& slot, uint64_t value) {
  // Sequentially consistent with the waiter's (count, then look): one of the two always sees the
  // other.
  slot.value.store(value, std::memory_order_seq_cst);
  if (slot.waiters.load(std::memory_order_seq_cst) > 0) futex_wake_all(futex_word(slot));
}

bool wait_slot(const SignalSlot& slot,
               uint64_t value,
               Deadline deadline,
               const std::atomic<uint32_t>* stop) {
  for (int i = 0; i < kSpins; ++i) {
    if (slot.value.load(std::memory_order_acquire) >= value) return true;
    cpu_pause();
  }
  auto& waiters =
      const_cast<SignalSlot&>(slot).waiters;  // host-only bookkeeping, not part of the value
  waiters.fetch_add(1, std::memory_order_seq_cst);
  bool reached = false;
  while (true) {
    const uint64_t seen = slot.value.load(std::memory_order_seq_cst);
    reached = seen >= value;
    const bool stopped = stop != nullptr && stop->load(std::memory_order_acquire) != 0;
    const int64_t left_ns = deadline.left_ns();
    if (reached || stopped || left_ns == 0) break;
    futex_wait(futex_word(slot), static_cast<uint32_t>(seen), std::min(left_ns, kSliceNs));
  }
  waiters.fetch_sub(1, std::memory_order_seq_cst);
  return reached;
}

void Signal::set(uint64_t value) {
  set_slot(*slot_, value);
}

Status Signal::wait(uint64_t value, Deadline deadline) const {
  if (wait_slot(*slot_, value, deadline)) return {};
  return fail(Errc::kTimeout,
              strf("signal: waited for %llu, value is %llu", static_cast<unsigned long long>(value),
                   static_cast<unsigned long long>(this->value())));
}

}  // namespace modeld::hal
