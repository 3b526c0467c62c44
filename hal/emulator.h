// A CPU of another instruction set, played by qemu-user (in builds with simulators). The hal cannot
// compile: whoever opens it compiles emulator_source() (backends.h), one function with a kernel's
// signature that needs no relocation, for that target, and hands its image over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace modeld::hal {

struct EmulatorConfig {
  std::string target;             // print_target() of what it runs; cpu:aarch64 is known
  std::vector<std::byte> runner;  // emulator_source() compiled
  uint64_t runner_entry = 0;
  int64_t run_limit_ms = 300'000;             // of one submission
  uint64_t memory_bytes = uint64_t{4} << 30;  // for all buffers; pages are used as they are written
};

}  // namespace modeld::hal
