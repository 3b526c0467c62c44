// isel: program sink (after pre_isel) -> the same with INS nodes for every value, load and store.
// RANGE, END, AFTER, GROUP and register BUFFERs stay. Contract: an operation or type without a
// pattern latches kUnsupported naming both. Values in registers: integers below 32 bits are
// extended to 32 by their sign, the upper half of a 64-bit register is 0 for all types of 32 bits
// and less; bool is 0 or 1; halves are their 16 bits in a general register; f32 and f64 stand in
// the low lane of a vector register whose other lanes mean nothing; lanes of bool vectors are 0 or
// -1 as wide as what was compared. Threading: one thread per Graph.
#pragma once

#include "runtime/ir/graph.h"

namespace modeld::isa::x86 {

const ir::Node* isel(ir::Graph& g, const ir::Node* sink);

}  // namespace modeld::isa::x86
