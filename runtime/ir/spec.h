// Verifier tables, one per stage: each node must be accepted, or the error names its index, op and
// sources (pipeline hand-book 1.7). A stage may not contain the ops of the next.
#pragma once

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

namespace modeld::ir {

Status verify_tensor(Graph& g, const Node* root);  // tensor graph, before scheduling
Status verify_kernel_graph(Graph& g,
                           const Node* root);  // after split_store: kernels and buffer states only
Status verify_kernel(Graph& g,
                     const Node* sink);  // one kernel AST (ranges, INDEX), before lowering
Status verify_program(Graph& g, const Node* sink);  // after the last pass

}  // namespace modeld::ir
