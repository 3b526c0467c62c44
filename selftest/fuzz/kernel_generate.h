// Random recipes. Contract: a pure function of the generator's state; the recipe is sound and
// small enough to be computed by hand (a few thousand innermost steps). Threading: pure function.
#pragma once

#include "selftest/fuzz/fuzz_main.h"
#include "selftest/fuzz/kernel_recipe.h"

namespace modeld::fuzz {

KernelRecipe generate_kernel(Rng& rng);

}  // namespace modeld::fuzz
