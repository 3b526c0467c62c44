// split_store: every closed store loop becomes one kernel, CALL(SINK[KernelInfo](body), states...).
// Needs plain buffer states; last kernel-graph pass. Contract: buffers are PARAM 0.. in order of
// first visit (the destination is 0), ranges are numbered from 0, so equal kernels are the same
// node; one kernel that reads two states of one buffer is Errc::kCycle "cycle detected while
// indexing". Threading: one thread per Graph.
#pragma once

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

namespace modeld::schedule {

Result<const ir::Node*> split_store(ir::Graph& g, const ir::Node* sink);

}  // namespace modeld::schedule
