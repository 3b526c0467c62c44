#include "runtime/isa/x86/x86.h"

#include "selftest/testing/compiled_kernel.h"

namespace modeld::testing {

codegen::CodegenOptions host_options() {
  auto target = hal::parse_target("cpu");
  target->renderer = "x86";
  target->threads = 1;
  return isa::x86::x86_options(*target).value();
}

Result<std::unique_ptr<ForeignMachine>> foreign_machine() {
  return std::unique_ptr<ForeignMachine>();
}

}  // namespace modeld::testing
