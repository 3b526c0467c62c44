// resolve_linear_call: CALL(LINEAR, args...) -> flat LINEAR on real buffers. PARAM slot i becomes
// call arg i, each GLOBAL BUFFER inside is a template and becomes a fresh BUFFER per instantiation,
// bound variables take the place of their ALU params. Contract: a nested LINEAR call is a lexical
// scope (own positional args override, other names are inherited); slot -1 is never replaced by an
// argument. Threading: one thread per Graph.
#pragma once

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

namespace modeld::schedule {

Result<const ir::Node*> resolve_linear_call(ir::Graph& g, const ir::Node* call);

}  // namespace modeld::schedule
