// with_whole_args: a kernel call whose arguments are parts of buffers as the same call on the whole
// buffers, for interpreters that know whole buffers only. Contract: parts are contiguous runs of
// elements; a call without parts comes back as the same node. Threading: as the Graph.
#pragma once

#include "runtime/ir/graph.h"

namespace modeld::testing {

const ir::Node* with_whole_args(ir::Graph& g, const ir::Node* call);

}  // namespace modeld::testing
