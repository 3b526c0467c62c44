// The kernel behind a program row: its AST read back from text, and that AST with another choice of
// opts. What two builds of one model share is the AST without any choice: kernel_identity.
// Contract: the text may come from a file; what is returned has passed verify_kernel and is a SINK
// with KernelInfo. Errors name `used_by`. Threading: one thread per Graph.
#pragma once

#include <string>

#include "hal/base/hash.h"
#include "hal/base/status.h"

#include "runtime/exec/plan.h"
#include "runtime/ir/graph.h"

namespace modeld::exec {

Result<const ir::Node*> kernel_ast(ir::Graph& g, const ProgramRow& row, const std::string& used_by);

// The AST asking for nothing: neither opts nor a search.
const ir::Node* without_opts(ir::Graph& g, const ir::Node* ast);
// The AST asking for exactly these; an empty list means none.
const ir::Node* with_opts(ir::Graph& g, const ir::Node* ast, ir::Opts opts);
bool has_explicit_opts(const ir::Node* ast);

// Equal for the same computation, whatever was chosen for it, in every process and every target.
Hash128 kernel_identity(ir::Graph& g, const ir::Node* ast, bool no_contract);

}  // namespace modeld::exec
