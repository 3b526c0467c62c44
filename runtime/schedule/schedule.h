// make_schedule: wanted values of a tensor graph -> an ordered list of kernel calls and a memory
// plan. This file and schedule.cc hold THE table of scheduling passes; each pass is a file of its
// own name. Contract: the result's `linear` is LINEAR(CALL(SINK[KernelInfo] | COPY, args...)...) in
// execution order; arguments are BUFFER nodes (the caller's own for inputs and weights, fresh ones
// for outputs and temporaries); variables stand by name in the bodies; argument 0 is the
// destination. Same graph, same options: same LINEAR up to buffer slots. Threading: one thread per
// Graph.
//
// A kernel body is SINK[KernelInfo](END(STORE(INDEX(PARAM0, idx), value), ranges WEAK...)):
// reads are INDEX(PARAMk, idx) used as a value, gates are WHERE(cond, idx, Invalid), reduces are
// REDUCE(value, ranges REDUCE...) with ReduceArg{op, 0}; PARAMs are flat and numbered in order of
// first visit, ranges from 0, variables are ALU params of slot -1.
#pragma once

#include <span>
#include <vector>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/schedule/create_linear_with_vars.h"
#include "runtime/schedule/memory_plan_rewrite.h"
#include "runtime/schedule/options.h"

namespace modeld::schedule {

struct Schedule {
  const ir::Node* linear = nullptr;
  // Per wanted value the BUFFER that holds it after the last call, all distinct. Flat, row-major in
  // the value's shape. For a wanted AFTER on the caller's own storage: that storage.
  std::vector<const ir::Node*> output_storage;
  VarBinds vars;    // bound variables the kernels use
  MemoryPlan plan;  // BUFFERs not in it need memory of their own
};

// `outputs`: values, or AFTERs (effects on buffers). Values of constants are filled by a kernel on
// options.device; an output that is an input, a view of one, or asked for twice is copied.
Result<Schedule> make_schedule(ir::Graph& g,
                               std::span<const ir::Node* const> outputs,
                               const ScheduleOptions& options = {});

}  // namespace modeld::schedule
