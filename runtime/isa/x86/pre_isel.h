// pre_isel: program sink -> program sink that only has what the instruction set has. Vector work
// without instructions becomes scalar work per lane; a vector load of which only single lanes are
// read becomes scalar loads; conversions and comparisons without an instruction become several that
// have one. Why before isel: the patterns then match one node each. Threading: one thread per
// Graph.
#pragma once

#include "runtime/ir/graph.h"

namespace modeld::isa::x86 {

const ir::Node* pre_isel(ir::Graph& g, const ir::Node* sink);

}  // namespace modeld::isa::x86
