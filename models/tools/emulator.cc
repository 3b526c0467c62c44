#include "models/tools/emulator.h"

#include "hal/backends.h"

#include "runtime/compile/compiler.h"

namespace modeld::tools {

Result<std::unique_ptr<hal::Device>> open_emulator_for(const hal::Target& target) {
  if (!target.is_cpu() || target.arch != "aarch64")
    return fail(Errc::kUnsupported,
                strf("no emulator for target %s", hal::print_target(target).c_str()));
  ASSIGN_OR_RETURN(const auto compiler, compile::make_clang_compiler(target));
  const compile::KernelSource runner{"emulator_runner", hal::emulator_source(), false};
  ASSIGN_OR_RETURN(auto images, compiler->do_compile(std::span(&runner, 1)));
  hal::EmulatorConfig config;
  config.target = hal::print_target(target);
  config.runner = std::move(images[0].code);
  config.runner_entry = images[0].entry_offset;
  return hal::open_emulator(config);
}

}  // namespace modeld::tools
