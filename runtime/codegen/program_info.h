// ProgramInfo and estimates, derived by scanning the final sink (pipeline hand-book 9.1).
// Threading: one thread per Graph.
#pragma once

#include <string>

#include "runtime/ir/graph.h"

namespace modeld::codegen {

ir::ProgramInfo program_info(ir::Graph& g, const ir::Node* sink, const std::string& name);

}  // namespace modeld::codegen
