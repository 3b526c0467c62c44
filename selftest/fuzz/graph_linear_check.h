// Rules every LINEAR and memory plan keeps, checked from the calls alone, with nothing of the
// planner's own code. Contract: "" or what is broken. Threading: one thread, as the Graph.
#pragma once

#include <span>
#include <string>

#include "runtime/exec/session.h"
#include "runtime/ir/graph.h"
#include "runtime/schedule/options.h"

namespace modeld::fuzz {

// Argument counts within the limit; kernels on one device; no buffer that is read before the call
// that first writes it, unless it was there before; planned buffers apart from each other, from
// those that outlive the LINEAR (`kept`) and, copies and compute, by lane.
std::string check_linear(ir::Graph& g,
                         const exec::SessionLinear& work,
                         std::span<const ir::Node* const> kept,
                         const schedule::ScheduleOptions& options);

}  // namespace modeld::fuzz
