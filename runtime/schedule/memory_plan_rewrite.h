// Memory planning: gives every short-lived buffer of a LINEAR a place in an arena per (device,
// lane). Needs a finished, ordered LINEAR; gives a table buffer -> (lane, arena offset, size); runs
// last, because lifetimes are positions in the order. The table is a prediction that holds only if
// calls run in order. Contract: two buffers alive at one step never overlap; held buffers and those
// of devices without sub-buffers are left alone; copies and compute never share an arena; offsets
// are multiples of 256. Units: bytes (128 bit inside, so nothing wraps). Threading: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/schedule/options.h"
#include "runtime/schedule/planner.h"

namespace modeld::schedule {

// Where one planned BUFFER of the LINEAR lives.
struct BufferPlace {
  int64_t lane = -1;   // index into MemoryPlan::lanes
  int64_t offset = 0;  // bytes from the start of the lane's arena
  int64_t size = 0;    // bytes really used
  int64_t first = 0;   // calls [first, last] name it
  int64_t last = 0;
  int64_t free = 0;  // first call that may use its bytes again
};

struct MemoryLane {
  std::string device;
  bool copy = false;
  int64_t arena_size = 0;                 // bytes to allocate
  int64_t sum_size = 0;                   // bytes if nothing were shared
  int64_t lower_bound = 0;                // most bytes alive at one step: no plan can be smaller
  PlanMethod method = PlanMethod::kTlsf;  // which planner won
};

struct MemoryPlan {
  std::vector<MemoryLane> lanes;
  std::vector<const ir::Node*> buffers;  // planned BUFFERs in order of first use
  std::vector<BufferPlace> places;       // parallel to `buffers`
  // nullptr = not planned (held, or planning is off): the buffer has its own memory.
  const BufferPlace* find(const ir::Node* buffer) const;

  std::unordered_map<const ir::Node*, size_t> index;  // buffer -> position in `places`
};

using NodeSet = std::unordered_set<const ir::Node*>;

// Lifetimes of the BUFFERs in `linear`'s calls, for planner.h. Fills `buffers` in discovery order.
PlanInput plan_input(ir::Graph& g,
                     const ir::Node* linear,
                     const NodeSet& held,
                     std::vector<const ir::Node*>* buffers);

Result<MemoryPlan> memory_plan_rewrite(ir::Graph& g,
                                       const ir::Node* linear,
                                       const NodeSet& held,
                                       const ScheduleOptions& options = {});

}  // namespace modeld::schedule
