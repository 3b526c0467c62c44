// fold_loads: a load whose value one later line of the same block reads becomes that line's memory
// operand, where the instruction set can. Only loads without a gate from buffers that the kernel
// does not write, so the later read sees the same. Contract: runs after split_loads.
// Threading: pure.
#pragma once

#include "runtime/isa/instruction_set.h"
#include "runtime/isa/machine.h"

namespace modeld::isa {

void fold_loads(Function& f, const InstructionSet& set);

}  // namespace modeld::isa
