// Monotonic time in nanoseconds, deadlines, and a clock interface with a fake for tests.
// This is not wall-clock time: nothing we write may contain one.
// Contract: Deadline is an absolute CLOCK_MONOTONIC time; a wait returns at the latest a scheduler
// slice after it. Threading: plain values; SteadyClock and FakeClock may be read from any thread.
#pragma once

#include <time.h>

#include <atomic>
#include <compare>
#include <cstdint>

namespace modeld {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kNsPerSecond = 1'000'000'000;

// CLOCK_MONOTONIC.
inline int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * kNsPerSecond + t.tv_nsec;
}

struct Deadline {
  int64_t ns = 0;

  static Deadline in_ns(int64_t delta_ns) { return Deadline{now_ns() + delta_ns}; }
  static Deadline in_ms(int64_t delta_ms) { return in_ns(delta_ms * kNsPerMs); }
  bool has_passed() const { return now_ns() >= ns; }
  // Never negative.
  int64_t left_ns() const {
    const int64_t left = ns - now_ns();
    return left > 0 ? left : 0;
  }
  // For poll(): rounded up, so that a poll never ends before the deadline.
  int left_ms() const {
    const int64_t ms = (left_ns() + kNsPerMs - 1) / kNsPerMs;
    return ms > 86'400'000 ? 86'400'000 : static_cast<int>(ms);
  }
  auto operator<=>(const Deadline&) const = default;
};

// What state machines take, so that tests can move time.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now() const = 0;  // ns, monotonic
};

class SteadyClock final : public Clock {
 public:
  int64_t now() const override { return now_ns(); }
};

class FakeClock final : public Clock {
 public:
  explicit FakeClock(int64_t start_ns = 0) : ns_(start_ns) {}
  int64_t now() const override { return ns_.load(std::memory_order_relaxed); }
  void advance_ns(int64_t delta_ns) { ns_.fetch_add(delta_ns, std::memory_order_relaxed); }
  void advance_ms(int64_t delta_ms) { advance_ns(delta_ms * kNsPerMs); }

 private:
  std::atomic<int64_t> ns_;
};

}  // namespace modeld
