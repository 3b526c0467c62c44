#include "runtime/render/render_cpu.h"

#include "selftest/testing/compiled_kernel.h"

namespace modeld::testing {

codegen::CodegenOptions host_options() {
  auto target = hal::parse_target("cpu");
  codegen::CodegenOptions o = codegen::cpu_options(*target);
  o.target.threads = 1;
  o.render = render::cpu_renderer(*target).render;
  return o;
}

Result<std::unique_ptr<ForeignMachine>> foreign_machine() {
  return std::unique_ptr<ForeignMachine>();
}

}  // namespace modeld::testing
