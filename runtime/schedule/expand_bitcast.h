// expand_bitcast: BITCAST between item sizes as shifts on unsigned integers. Kernels only know the
// BITCAST of one item to one item; little endian, as all targets are. It is not for storage that
// can be viewed in place (byte_view.h) nor for DISK, which computes nothing. Contract: nullptr =
// leave it alone; symbolic dims are Errc::kUnsupported. Threading: one thread per Graph.
#pragma once

#include "runtime/ir/graph.h"

namespace modeld::schedule {

const ir::Node* expand_bitcast(ir::Graph& g, const ir::Node* bitcast);

// True if the BITCAST changes the size of items, and with it the last dimension.
bool resizes_items(const ir::Node* bitcast);

}  // namespace modeld::schedule
