// resolve_multi: a tensor graph over several devices -> local values only. Afterwards no UNSHARD
// and no ALLREDUCE is left, MSELECT and MSTACK stand on flat buffer states only, and every value on
// a device tuple is one that each of its devices computes for itself (one kernel, launched once per
// device). Needs inlined FUNCTIONs; part (a) of prepare_rangeify, first, because everything later
// speaks of local shapes. The table of rules is in multi.cc; each rule here takes a node whose
// sources are resolved and gives its replacement, nullptr = leave it. Contract: what check_multi
// (multi_check.h) refuses is refused; a graph on single devices comes back as the same node.
// Threading: one thread per Graph.
#pragma once

#include <span>
#include <string>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/ir/sharding.h"
#include "runtime/schedule/multi_storage.h"
#include "runtime/schedule/options.h"

namespace modeld::schedule {

Result<const ir::Node*> resolve_multi(ir::Graph& g,
                                      const ir::Node* sink,
                                      const ScheduleOptions& options = {});

struct Multi {
  ir::Graph& g;
  const ScheduleOptions& options;
  MultiStorage& storage;
};

// ---- elementwise (alu_multi.cc) ----
const ir::Node* alu_multi(Multi& m, const ir::Node* n);
const ir::Node* stack_multi(Multi& m, const ir::Node* n);
const ir::Node* index_multi(Multi& m, const ir::Node* n);
const ir::Node* store_multi(Multi& m, const ir::Node* n);
// The part of `x` (whole, or sharded in any way) that belongs to sharding `s` of a value with
// `rank` axes; axes of x count from the right, those of size 1 and missing ones stay whole.
const ir::Node* local_part(Multi& m, const ir::Node* x, const ir::Sharding& s, size_t rank);

// ---- reduce, movement (multi_reduce.cc, multi_movement.cc) ----
const ir::Node* reduce_multi(Multi& m, const ir::Node* n);
const ir::Node* movement_multi(Multi& m, const ir::Node* n);
// SHRINK(COPY(x, devices)): only what is asked for travels.
const ir::Node* shrink_before_copy(ir::Graph& g, const ir::Node* shrink);

// ---- transfers (copy_multi.cc, handle_allreduce.cc) ----
const ir::Node* copy_multi(Multi& m, const ir::Node* n);
// The whole of a sharded value on every device of `to`: padded parts, ALLREDUCE(ADD).
const ir::Node* gather_multi(Multi& m, const ir::Node* unshard, const std::string& to);
// The number of the device that holds part parts[i] of every sharded axis i.
int64_t device_holding(Multi& m, const ir::Sharding& s, const ir::Ints& parts);

}  // namespace modeld::schedule
