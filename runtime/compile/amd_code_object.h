// The AMD code object clang and lld make of one kernel: checked once at compile time, so that no
// loader has to trust it. This is not a loader. Layout: ELF64 as the AMDGPU back end of LLVM writes
// it; kernel descriptor as in the HSA ABI (64 bytes, symbol NAME.kd).
// Contract: every offset is checked; an undefined symbol or a relocation is kCompile naming it.
// Threading: pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "hal/base/status.h"

namespace modeld::compile {

struct AmdKernelFacts {
  uint64_t descriptor_offset = 0;   // in the file
  uint64_t descriptor_address = 0;  // once loaded, from the load base
  uint64_t entry_address = 0;       // of the first instruction, from the load base
  uint32_t group_segment = 0;       // bytes of local memory
  uint32_t private_segment = 0;     // bytes of scratch per work item
  uint32_t kernarg_size = 0;
  uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
  uint16_t properties = 0;
};

// `arch`: "gfx1100" or "gfx1201"; the object must be for it.
Result<AmdKernelFacts> parse_amd_code_object(std::span<const std::byte> elf,
                                             const std::string& arch,
                                             const std::string& kernel);

}  // namespace modeld::compile
