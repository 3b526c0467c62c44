// jit_lower: a captured LINEAR to the rows that replay it. Needs a compiled, pruned LINEAR on the
// session's buffers. In order: inputs become PARAM(i), so that every use of one is known by its
// place; memory_plan_rewrite gives temporaries places in arenas; calls become rows, once per
// device. Contract: buffers that a live tensor reaches, that have memory, or whose contents are
// read before they are written are held: they keep memory of their own. Errors name the call.
// Threading: one thread, as the Graph.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/exec/compiled_linear.h"
#include "runtime/exec/session.h"
#include "runtime/ir/graph.h"

namespace modeld::exec {

struct JitLowered {
  std::string target;  // print_target() form of what the kernels were compiled for
  CompiledLinear linear;
  ir::NodeVec held;  // per row of linear.memories: its BUFFER; null: an arena
  // Per row: its contents come from one run alone, so that it may be given up between runs.
  std::vector<bool> is_product;
};

// `inputs`: BUFFERs, canonical. `variables`: those that have another value in every call; `vars`:
// all values at the time of the capture.
Result<JitLowered> jit_lower(Session& session,
                             const ir::Node* linear,
                             std::span<const ir::Node* const> inputs,
                             const std::vector<std::string>& variables,
                             const schedule::VarBinds& vars);

}  // namespace modeld::exec
