// get_kernel_graph: SINK of stores on PARAMs -> graph of buffer states AFTER(buffer, CALL...) in
// which every CALL is one kernel. Its passes are the table in get_kernel_graph.cc. Contract: the
// result satisfies verify_kernel_graph (Fault::kOpenRange: a loop was left over); one state of each
// buffer per kernel (else Fault::kIndexCycle "cycle detected while indexing", which names both).
// Threading: one thread per Graph.
#pragma once

#include <span>
#include <vector>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/pass/pass.h"
#include "runtime/schedule/options.h"

namespace modeld::schedule {

std::vector<pass::Pass> kernel_graph_passes(const ScheduleOptions& options);
Result<const ir::Node*> get_kernel_graph(ir::Graph& g,
                                         const ir::Node* sink,
                                         const ScheduleOptions& options = {});

}  // namespace modeld::schedule
