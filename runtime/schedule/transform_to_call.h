// transform_to_call: SINK of wanted nodes -> CALL(SINK(stores), args...) whose body names no buffer
// and no bound value, plus a map wanted node -> storage. Needs a tensor graph; first step, so that
// the body's key is the same for the same computation on other buffers, offsets and values.
// Contract: slots in order of first visit; no value of the map is one of its keys; contiguous runs
// of realised buffers that the call does not write become arguments of their own (views), not
// copies; precompiled FUNCTIONs become CALLs that write a buffer per result; size 0 makes no store.
// A write into a view of a value without memory is Fault::kAssignUnrealised. Threading: one thread
// per Graph.
#pragma once

#include <vector>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/ir/rewrite.h"
#include "runtime/schedule/options.h"

namespace modeld::schedule {

// A write the call makes into a buffer of the caller.
struct StateWrite {
  const ir::Node* state = nullptr;     // the node whose value is the buffer after the write
  const ir::Node* previous = nullptr;  // what it supersedes: a BUFFER or an earlier state
};

struct CallAndMap {
  const ir::Node* call = nullptr;  // CALL(SINK(AFTERs), arg0, arg1...)
  ir::NodeMap map;                 // wanted node or base -> BUFFER under movement ops
  std::vector<StateWrite> writes;  // earlier ones first
};

Result<CallAndMap> transform_to_call(ir::Graph& g,
                                     const ir::Node* sink,
                                     const ScheduleOptions& options = {});

// The nodes of live tensors after a schedule was made: those whose graph holds a key of `map` are
// rewritten (walk mode, over one common SINK), all others are returned as they are.
ir::NodeVec apply_map_to_tensors(ir::Graph& g, const ir::NodeVec& live, const ir::NodeMap& map);

}  // namespace modeld::schedule
