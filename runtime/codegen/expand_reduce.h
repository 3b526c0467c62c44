// expand_reduce: how a REDUCE over lanes becomes scalar work (pipeline hand-book 7.2). Part of the
// expander, a file of its own because it decides the order of float sums.
// Threading: one thread per Graph.
#pragma once

#include "runtime/codegen/options.h"
#include "runtime/ir/graph.h"

namespace modeld::codegen {

// One reduce after expansion: value lanes laid out as [kept lane][unrolled lane].
struct ReduceLanes {
  ir::NodeVec lanes;
  size_t kept = 1;      // lanes that stay apart (UPCAST)
  size_t unrolled = 1;  // lanes folded together (UNROLL)
};

// Gives one node per kept lane. `loops`: the RANGEs that stay loops.
ir::NodeVec expand_reduce(ir::Graph& g,
                          const ir::Node* reduce,
                          const ReduceLanes& value,
                          const ir::NodeVec& loops,
                          const CodegenOptions& o);

}  // namespace modeld::codegen
