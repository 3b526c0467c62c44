// render_opencl: ordered instructions -> one kernel in OpenCL C 1.2, core features only, and the
// prelude its program needs once. The text is compiled by the device's driver. Contract: see
// opencl_kernel.h; texts of several kernels may be concatenated to one program, each with the
// prelude before it (it guards itself). Halves are loaded and stored, never computed with: no
// extension is needed. Threading: pure functions.
#pragma once

#include <span>
#include <string>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/render/renderer.h"

namespace modeld::render {

// Build options the text relies on. Denormals and NaNs stay: nothing "fast" is asked for.
inline constexpr const char* kOpenClBuildOptions = "-cl-std=CL1.2";

const std::string& opencl_prelude();

Result<std::string> render_opencl(ir::Graph& g,
                                  std::span<const ir::Node* const> linear,
                                  const std::string& name);

Renderer opencl_renderer();

}  // namespace modeld::render
