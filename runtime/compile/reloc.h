// Applies one relocation of x86-64 or AArch64 to bytes whose layout is already decided.
// Contract: `place` and `target` are offsets from the image's start, which is aligned to at least
// reloc_alignment(). Values out of range and unknown types are errors. Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hal/base/status.h"

namespace modeld::compile {

// "R_X86_64_PC32", or "type 9".
const char* reloc_name(uint16_t machine, uint32_t type);
// True when this type is resolved by apply_reloc.
bool reloc_is_known(uint16_t machine, uint32_t type);
// Alignment an image with such a relocation needs: 4096 for page-relative addresses.
uint64_t reloc_alignment(uint16_t machine, uint32_t type);
Status apply_reloc(
    uint16_t machine, uint32_t type, std::span<std::byte> image, uint64_t place, int64_t target);

}  // namespace modeld::compile
