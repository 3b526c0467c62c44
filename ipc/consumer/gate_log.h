// What a gate decided, change by change, and what that says of it: how often each decision came,
// and how old the frame was that it had used last when it left. It decides nothing itself
// (consumer.h). Contract: the log keeps the last kMaxEntries changes, the counts all of them.
// Threading: one thread. Time comes from the clock handed in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hal/base/json.h"

#include "ipc/consumer/consumer.h"

namespace modeld::ipc {

// A change of mind: when, what, why, and what was last acted on.
struct GateChange {
  int64_t time_ns = 0;
  Verdict verdict;
  LastValid road;
  LastValid cabin;

  // Of the older of the two frames last acted on; 0 when there was none.
  int64_t age_ns() const;
  std::string text() const;  // one line
};

// Of one kind of decision.
struct DecisionCount {
  uint64_t changes = 0;  // into it
  // Of those that disengage: how old the frame used last was then.
  int64_t last_age_ns = 0;
  int64_t max_age_ns = 0;
};

class GateLog final {
 public:
  static constexpr size_t kMaxEntries = 1000;

  explicit GateLog(const Clock& clock) : clock_(clock), start_ns_(clock.now()) {}

  // True when the verdict is a change worth telling. Silence means something only once it has
  // lasted.
  bool take(const Consumer& consumer, Verdict verdict);
  const GateChange& last() const { return changes_.back(); }
  const DecisionCount& count(Decision decision) const {
    return counts_[static_cast<size_t>(decision)];
  }
  uint64_t disengagements() const;  // soft or immediate, after "may engage"
  Json to_json(const Verdict& now) const;

 private:
  const Clock& clock_;
  int64_t start_ns_;
  std::vector<GateChange> changes_;
  std::array<DecisionCount, kDecisionCount> counts_{};
};

}  // namespace modeld::ipc
