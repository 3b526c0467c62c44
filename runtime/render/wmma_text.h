// The matrix-unit steps a target has, as functions in its language: wmma_CORE(a, b, acc), one per
// row of the tensor-core table that is declared for it (runtime/codegen/tensor_cores.def; a test
// holds the two together). This does not choose when to use them.
// Contract: text only for what the target's own description allows; "" for targets without any.
// Threading: pure.
#pragma once

#include <string>

#include "hal/target.h"

namespace modeld::render {

// C with vector extensions for a CPU, OpenCL C for AMD; after the renderer's typedefs.
std::string wmma_functions(const hal::Target& target);

}  // namespace modeld::render
