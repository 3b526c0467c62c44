// reduce_simplify: algebra that makes a loop of a REDUCE disappear: an unused range multiplies by
// its bound, a sum over `lo <= r < hi` counts, a sum over `r == e` picks, sums of sums split when a
// part goes away. Contract: value for value equal; nullptr = nothing to do. Threading: one thread
// per Graph.
#pragma once

#include "runtime/ir/graph.h"

namespace modeld::schedule {

const ir::Node* reduce_simplify(ir::Graph& g, const ir::Node* reduce);

}  // namespace modeld::schedule
