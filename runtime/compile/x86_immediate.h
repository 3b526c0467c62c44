// How many bytes follow the displacement of an x86-64 instruction that addresses relative to the
// instruction pointer: its immediate. A relocation counts from the end of the instruction, so only
// with this does it say which byte it means. Contract: looks at the opcode bytes in front of the
// displacement, never behind it; the answers come most likely first, and an instruction that was
// read wrongly is one whose opcode the bytes before it happen to spell too. Units: bytes.
// Threading: pure function. Source: the opcode maps of the Intel 64 manual, volume 2, appendix A.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace modeld::compile {

// `displacement` is the offset of the four displacement bytes in `text`. Empty: no such
// instruction.
std::vector<int64_t> x86_immediate_sizes(std::span<const std::byte> text, uint64_t displacement);

}  // namespace modeld::compile
