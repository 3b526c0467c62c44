// Small helpers on indexed expressions that the scheduling passes share: replacing loop variables
// in one expression at a cost that depends on that expression only, and looking below a value up
// to the buffers it reads. Threading: one thread per Graph.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/ir/rewrite.h"
#include "runtime/schedule/index_transform.h"

namespace modeld::schedule {

// BUFFER, PARAM (not variables), AFTER on those; MSELECT and MSTACK (of states, after
// resolve_multi).
bool is_state(const ir::Node* n);
// The loop over devices: open in a whole kernel, bound at launch.
bool is_device_range(const ir::Node* n);
// The scalar PARAM of a variable, bound or not.
bool is_scalar_param(const ir::Node* n);

// How errors name storage: its name, or its number.
std::string storage_name(const ir::Node* buffer);
// Inside a body storage is "argument N": the same error in the names of the call's arguments.
Error name_arguments(Error e, std::span<const ir::Node* const> args);

// `n` with every RANGE that is a key of `map` replaced; does not look below buffer states and
// STAGEs (they close their own loops).
const ir::Node* replace_ranges(ir::Graph& g, const ir::Node* n, const ir::NodeMap& map);
// The same, and every INDEX of `n` is also gated by `valid` (over the new ranges).
const ir::Node* replace_ranges_gated(ir::Graph& g,
                                     const ir::Node* n,
                                     const ir::NodeMap& map,
                                     const ir::Node* valid);

// Nodes of one expression, sources first, down to states and STAGEs (listed, not entered).
ir::NodeVec expression_nodes(const ir::Node* n);

// index node of `source`: indices gated by access.valid (on the first one).
const ir::Node* index_node(ir::Graph& g,
                           const ir::Node* source,
                           const ir::NodeVec& idx,
                           const ir::Node* valid);
// The indices of an INDEX without gates, and their gates joined.
Access index_access(ir::Graph& g, const ir::Node* index);

const ir::Node* zero_of(ir::Graph& g, ir::DType t);

}  // namespace modeld::schedule
