#include "runtime/render/render_opencl.h"

#include "selftest/testing/compiled_kernel.h"

namespace modeld::testing {

codegen::CodegenOptions host_options() {
  codegen::CodegenOptions o = codegen::gpu_options(*hal::parse_target("cl"));
  o.render = render::opencl_renderer().render;
  // Our polynomials are the subject of the tests; the driver's functions have a test of their own.
  o.caps.has_exp2 = o.caps.has_log2 = o.caps.has_sin = false;
  return o;
}

}  // namespace modeld::testing
