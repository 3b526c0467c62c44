// fix_store_hazard: STORE(target, value) where the value reads the target's own buffer at other
// places than it writes: the value is made CONTIGUOUS (computed whole before it is stored).
// Contract: conservative; the same element read and written is no hazard. nullptr = fine as it is.
#pragma once

#include "runtime/ir/graph.h"

namespace modeld::schedule {

const ir::Node* fix_store_hazard(ir::Graph& g, const ir::Node* store);

}  // namespace modeld::schedule
