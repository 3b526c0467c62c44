// resolve_function: FUNCTION(TUPLE, args...) -> TUPLE of values with PARAM slot i replaced by arg i
// (walk mode: params inside arguments are not captured again). Contract: a parameter whose shape,
// dtype or shard axis differs from its argument's is kFunctionShape, kFunctionDtype, kFunctionAxis;
// a slot without argument is kFunctionSlots; unused slots are fine unless strict. FUNCTIONs marked
// precompiled are calls (precompiled_call.h) and not inlined here. Threading: one thread per Graph.
#pragma once

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

namespace modeld::schedule {

// Every parameter of the body against its argument. strict: the slots are exactly 0..n-1 for n
// arguments.
Status check_function(ir::Graph& g, const ir::Node* function, bool strict);

// One FUNCTION node -> its TUPLE.
Result<const ir::Node*> resolve_function(ir::Graph& g,
                                         const ir::Node* function,
                                         bool strict = false);
// Every FUNCTION below root, GETTUPLE(TUPLE) picked, until none is left.
Result<const ir::Node*> resolve_functions(ir::Graph& g, const ir::Node* root);

}  // namespace modeld::schedule
