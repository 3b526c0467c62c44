// base_storage: the storage below a value's views and states. Remembered per node: states of one
// buffer form long chains, and every scheduling pass asks for each of them. Contract: the first
// node below movement ops, casts, INDEX, CONTIGUOUS and AFTER; BUFFER or PARAM for a view or a
// state of one, MSTACK or MSELECT for values on several devices. Threading: as the Graph.
#pragma once

#include "runtime/ir/graph.h"

namespace modeld::ir {

const Node* base_storage(Graph& g, const Node* n);

// Views and casts, which stand between a user and the state it reads.
bool is_view_op(const Node* n);

}  // namespace modeld::ir
