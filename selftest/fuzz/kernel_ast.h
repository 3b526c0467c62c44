// A recipe as the kernel AST that the scheduler would hand to code generation.
// Threading: one thread, as the Graph.
#pragma once

#include "runtime/ir/graph.h"

#include "selftest/fuzz/kernel_recipe.h"

namespace modeld::fuzz {

inline constexpr const char* kRecipeVariable = "v";

const ir::Node* kernel_ast(ir::Graph& g, const KernelRecipe& r);
// The same with a list of opts to apply.
const ir::Node* with_opts(ir::Graph& g, const ir::Node* ast, const ir::Opts& opts);

}  // namespace modeld::fuzz
