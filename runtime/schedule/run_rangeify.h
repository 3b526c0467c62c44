// run_rangeify: decides which values get memory and turns every movement op into index arithmetic.
// Needs prepare_rangeify's graph; gives SINK(AFTER(buffer, END(STORE(INDEX, value), ranges))) in
// which values read INDEX(buffer state, flat index) or INDEX(STAGE(value, ranges), indices).
// Contract: no movement op is left; a reduce is never recomputed by a later broadcast; every STAGE
// is global and whole. Threading: one thread per Graph.
#pragma once

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/schedule/options.h"

namespace modeld::schedule {

Result<const ir::Node*> run_rangeify(ir::Graph& g,
                                     const ir::Node* sink,
                                     const ScheduleOptions& options = {});

}  // namespace modeld::schedule
