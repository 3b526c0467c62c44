#include "selftest/testing/compiled_kernel.h"

namespace modeld::testing {

codegen::CodegenOptions host_options() {
  return codegen::gpu_options(*hal::parse_target("cl"));
}

}  // namespace modeld::testing
