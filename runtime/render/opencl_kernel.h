// opencl_kernel: ordered instructions -> one __kernel function, for both OpenCL dialects.
// Contract: argument i of the kernel is argument i of the program: buffers (or images) first, then
// scalars; a number the body does not use is a pointer that is never followed. The work group size
// is part of the text wherever it is fixed. Threading: pure.
#pragma once

#include <span>
#include <string>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/render/c_like.h"

namespace modeld::render {

Result<std::string> opencl_kernel(const CDialect& dialect,
                                  ir::Graph& g,
                                  std::span<const ir::Node* const> linear,
                                  const std::string& name);

}  // namespace modeld::render
