// The x86-64 instruction path (AVX2, FMA, F16C, BMI2): a program sink to machine code without any
// outside program. Contract: the code is a function KERNEL(const uint64_t* words, uint32_t core_id)
// of the System V ABI as hal/program.h wants it: text, then constants addressed relative to the
// instruction, no relocation, entry at 0. The same input gives the same bytes. An operation
// without an instruction is kUnsupported naming it. Threading: pure functions.
#pragma once

#include <string>

#include "hal/base/status.h"
#include "hal/target.h"

#include "runtime/codegen/options.h"
#include "runtime/isa/instruction_set.h"

namespace modeld::isa::x86 {

// What the code needs of the CPU; "" when the target has it all, else the missing features.
std::string missing_features(const hal::Target& target);

// Name and version of this code generator, for keys and manifests. Goes up whenever the bytes of
// any kernel may change.
const char* identity();

const InstructionSet& instruction_set();

// Allocated lines to bytes and a listing.
Result<codegen::Assembly> assemble(const Function& f);

// Capabilities, pass options and the two stages, as an options record for to_program.
Result<codegen::CodegenOptions> x86_options(const hal::Target& target);

}  // namespace modeld::isa::x86
