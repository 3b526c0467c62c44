// The early rules about COPY and about stores into views: a transfer is an ordinary store until
// after scheduling, so that one set of rules orders all of them. copy_from_store.h turns the pure
// ones back. Contract: rules return nullptr for "no match". Threading: one thread per Graph.
#pragma once

#include <string>

#include "runtime/ir/graph.h"

namespace modeld::schedule {

bool is_disk(const std::string& device);

// COPY(x) -> AFTER(BUFFER(device), STORE(BUFFER, flat x)) in x's shape. A source on its own device
// is no copy; one that is no contiguous run of storage is computed whole first.
const ir::Node* copy_to_store(ir::Graph& g, const ir::Node* copy);

// STORE(run of a buffer, COPY(x)) -> STORE(run, x): the transfer lands where it is wanted.
const ir::Node* copy_in_place(ir::Graph& g, const ir::Node* store);

// STORE(BITCAST(t), v) -> STORE(t, BITCAST(v)).
const ir::Node* store_without_bitcast(ir::Graph& g, const ir::Node* store);

// `n` as a flat run of its storage (the state itself, or SHRINK of it); nullptr if the view chain
// over the state is not one contiguous run, or the device has no sub-buffers.
const ir::Node* contiguous_run(ir::Graph& g, const ir::Node* n);

}  // namespace modeld::schedule
