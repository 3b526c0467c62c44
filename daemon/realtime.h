// Real time for a process of ours: its memory locked, its threads in SCHED_FIFO and on the CPUs
// that the configuration names. Applied once all threads exist, the device's and the library's:
// what is started or mapped before must not take a CPU from those who drive.
// Contract: nothing of it is needed to run. What the system refuses is told as a part and a line,
// never as an error; the caller logs the lines and shows the parts as a metric. Threading: one
// thread, while no other starts threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace modeld::daemon {

enum class RealtimePart : uint8_t { kMemory, kPriority, kCpus };
inline constexpr RealtimePart kRealtimeParts[] = {RealtimePart::kMemory, RealtimePart::kPriority,
                                                  RealtimePart::kCpus};
const char* realtime_part_name(RealtimePart part);  // "memory", "priority", "cpus"

// Parts that were wanted and could not be had.
class RealtimeMissing {
 public:
  RealtimeMissing() = default;
  explicit RealtimeMissing(uint8_t bits) : bits_(bits) {}
  void add(RealtimePart part) { bits_ |= bit(part); }
  bool has(RealtimePart part) const { return (bits_ & bit(part)) != 0; }
  uint8_t bits() const { return bits_; }

 private:
  static uint8_t bit(RealtimePart part) {
    return static_cast<uint8_t>(1U << static_cast<uint8_t>(part));
  }
  uint8_t bits_ = 0;
};

struct RealtimeWish {
  int priority = 0;              // 0: normal class, memory not locked; 1..99: SCHED_FIFO and locked
  std::vector<int> cpus;         // empty: any
  bool children_normal = false;  // what is forked starts in the normal class
};

struct RealtimeResult {
  RealtimeMissing missing;
  std::vector<std::string>
      texts;  // one line per missing part: what was tried, why not, what instead
};

RealtimeResult apply_realtime(const RealtimeWish& wish);

// Those of `cpus` that this process may run on; a device pins its threads to nothing else.
std::vector<int> usable_cpus(const std::vector<int>& cpus);

}  // namespace modeld::daemon
