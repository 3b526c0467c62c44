// render_amd: ordered instructions -> one kernel in OpenCL C for clang's amdgcn target, without
// device libraries: indices, barrier and math are compiler builtins (hal hand-book 4.2), so the
// code object has no undefined symbol and no hidden argument. Contract: see opencl_kernel.h;
// compile as runtime/compile does. Threading: pure functions.
#pragma once

#include <span>
#include <string>

#include "hal/base/status.h"
#include "hal/target.h"

#include "runtime/ir/graph.h"
#include "runtime/render/renderer.h"

namespace modeld::render {

// With the matrix unit's steps of this chip.
std::string amd_prelude(const hal::Target& target);

Result<std::string> render_amd(ir::Graph& g,
                               std::span<const ir::Node* const> linear,
                               const std::string& name);

Renderer amd_renderer(const hal::Target& target);

}  // namespace modeld::render
