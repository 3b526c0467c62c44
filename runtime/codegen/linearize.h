// linearize: program sink -> total order of instructions (pipeline hand-book 8.1). Contract: every
// node after its sources, loops nested, the same order in every process.
#pragma once

#include "runtime/ir/graph.h"

namespace modeld::codegen {

ir::NodeVec linearize(ir::Graph& g, const ir::Node* sink);

}  // namespace modeld::codegen
