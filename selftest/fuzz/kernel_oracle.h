// The result of a recipe computed by hand, element by element, with its error bounds
// (kernel_approx.h): what no code generator has touched. Threading: pure functions.
#pragma once

#include <vector>

#include "selftest/fuzz/kernel_approx.h"
#include "selftest/fuzz/kernel_recipe.h"
#include "selftest/testing/kernel_interp.h"

namespace modeld::fuzz {

// Contents of every buffer before the kernel runs; outputs hold a pattern.
std::vector<testing::KernelStorage> recipe_data(const KernelRecipe& r);

// What every output buffer may hold afterwards.
using Expected = std::vector<std::vector<Approx>>;
Expected recipe_result(const KernelRecipe& r, const std::vector<testing::KernelStorage>& data);

}  // namespace modeld::fuzz
