// prepare_rangeify: makes a tensor graph ready for indexing. Needs SINK(AFTERs and values); gives
// the same computation with merged movement ops, AFTERs on flat storage only, functions inlined,
// huge reduces cut in two, hazardous self-assignments staged, stores that change nothing dropped,
// bitcasts between item sizes as shifts, empty tensors gone, copies turned into stores. First of
// the kernel-graph passes because everything later indexes plain storage. Contract: Errc::kMismatch
// for a bad FUNCTION argument. Threading: one thread per Graph.
#pragma once

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/schedule/options.h"

namespace modeld::schedule {

Result<const ir::Node*> prepare_rangeify(ir::Graph& g,
                                         const ir::Node* sink,
                                         const ScheduleOptions& options = {});

}  // namespace modeld::schedule
