// precompiled_call: a FUNCTION marked precompiled -> a CALL of a SINK of stores, scheduled once per
// shape and reused, with one new buffer per result. Part of transform_to_call. Contract: argument i
// stays argument i, buffers the body names follow, then one per stored result. A result that is a
// parameter (or a state of one) takes the argument's storage; CONTIGUOUS around a result adds
// nothing; a result asked for twice is copied. Threading: one thread per Graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/schedule/options.h"

namespace modeld::schedule {

// FUNCTION with argument true: not inlined, a call of its own.
bool is_precompiled(const ir::Node* function);
// Arguments whose buffers the body writes, increasing.
std::vector<size_t> written_args(const ir::Node* function);

struct CallResult {
  const ir::Node* value = nullptr;    // what GETTUPLE(FUNCTION, i) becomes
  const ir::Node* storage = nullptr;  // its new buffer in the result's shape; nullptr: rebound
  int64_t written_arg = -1;           // rebound to a state that the call writes: which argument
};

// `function`: with arguments that already are rewritten.
Result<std::vector<CallResult>> precompiled_call(ir::Graph& g,
                                                 const ir::Node* function,
                                                 const ScheduleOptions& options);

// Flat storage seen with x's shape; symbolic dims are a part of the largest one, sharded x lies in
// parts.
const ir::Node* in_shape_of(ir::Graph& g, const ir::Node* flat, const ir::Node* x);

}  // namespace modeld::schedule
