// sync_calls: where the queues of several devices must wait for one another, so that the calls of a
// compiled LINEAR see their data. One queue per device runs its calls in order; only calls of other
// devices need a wait. Contract: a wait that an earlier wait of the same queue implies, directly or
// through a third queue, is dropped; a call signals only if somebody waits for it. Every wait is
// for an earlier call, so queues filled in call order cannot block each other for ever.
// Threading: pure.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/exec/compiled_linear.h"

namespace modeld::exec {

struct QueueWait {
  uint32_t device = 0;
  uint32_t call = 0;  // until the queue of `device` has finished this call
  bool operator==(const QueueWait&) const = default;
};

struct CallSync {
  std::vector<QueueWait> waits;
  bool is_signalled = false;
  bool operator==(const CallSync&) const = default;
};

std::vector<CallSync> sync_calls(const CompiledLinear& linear);

}  // namespace modeld::exec
