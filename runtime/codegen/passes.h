// The kernel passes, one function per file; order and reasons are in lower.cc. Each is pure: root
// in, root out; bad input latches an error in the Graph. No pass runs another.
// Threading: one thread per Graph.
#pragma once

#include "runtime/codegen/options.h"
#include "runtime/ir/graph.h"

namespace modeld::codegen {

using ir::Graph;
using ir::Node;

const Node* multi_resolve(Graph& g, const Node* root, const CodegenOptions& o);
const Node* early_movement(Graph& g, const Node* root, const CodegenOptions& o);
const Node* load_collapse(Graph& g, const Node* root, const CodegenOptions& o);
const Node* split_ranges(Graph& g, const Node* root, const CodegenOptions& o);
const Node* initial_symbolic(Graph& g, const Node* root, const CodegenOptions& o);
const Node* simplify_ranges(Graph& g, const Node* root, const CodegenOptions& o);
const Node* apply_opts(Graph& g, const Node* root, const CodegenOptions& o);
const Node* post_opt_symbolic(Graph& g, const Node* root, const CodegenOptions& o);
const Node* merge_ends(Graph& g, const Node* root, const CodegenOptions& o);
const Node* group_reduces(Graph& g, const Node* root, const CodegenOptions& o);
const Node* add_local_buffers(Graph& g, const Node* root, const CodegenOptions& o);
const Node* expander(Graph& g, const Node* root, const CodegenOptions& o);
const Node* remove_reduces(Graph& g, const Node* root, const CodegenOptions& o);
const Node* add_gpudims(Graph& g, const Node* root, const CodegenOptions& o);
const Node* add_loads(Graph& g, const Node* root, const CodegenOptions& o);
const Node* early_symbolic(Graph& g, const Node* root, const CodegenOptions& o);
const Node* memory_coalescing(Graph& g, const Node* root, const CodegenOptions& o);
const Node* pack_lanes(Graph& g, const Node* root, const CodegenOptions& o);
const Node* images(Graph& g, const Node* root, const CodegenOptions& o);
const Node* extra_symbolic(Graph& g, const Node* root, const CodegenOptions& o);
const Node* lower_index_dtypes(Graph& g, const Node* root, const CodegenOptions& o);
const Node* final_symbolic(Graph& g, const Node* root, const CodegenOptions& o);
const Node* cast_float_operands(Graph& g, const Node* root, const CodegenOptions& o);
const Node* early_decomp(Graph& g, const Node* root, const CodegenOptions& o);
const Node* dtype_decomp(Graph& g, const Node* root, const CodegenOptions& o);
const Node* long_decomp(Graph& g, const Node* root, const CodegenOptions& o);
const Node* late_decomp(Graph& g, const Node* root, const CodegenOptions& o);
const Node* move_gates(Graph& g, const Node* root, const CodegenOptions& o);
const Node* final_rewrite(Graph& g, const Node* root, const CodegenOptions& o);
const Node* casted_consts(Graph& g, const Node* root, const CodegenOptions& o);
const Node* implicit_barriers(Graph& g, const Node* root, const CodegenOptions& o);
const Node* control_flow(Graph& g, const Node* root, const CodegenOptions& o);
const Node* number_params(Graph& g, const Node* root, const CodegenOptions& o);

}  // namespace modeld::codegen
