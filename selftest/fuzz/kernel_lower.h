// A kernel AST through the kernel passes, with one deliberate defect between two of them; the rest
// of the chain is the product's. Threading: one thread, as the Graph.
#pragma once

#include "runtime/codegen/to_program.h"

namespace modeld::fuzz {

// Does to the graph what a fault in the pass before would have done; a graph without the place for
// it comes back as it is.
struct KernelDefect {
  const char* name;
  const char* after;  // name of a pass
  const ir::Node* (*damage)(ir::Graph& g, const ir::Node* root);
};

// `defect` null: to_program() as it is.
Result<codegen::Program> lower_kernel(ir::Graph& g,
                                      const ir::Node* ast,
                                      const codegen::CodegenOptions& options,
                                      const KernelDefect* defect);

}  // namespace modeld::fuzz
