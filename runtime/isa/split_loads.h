// split_loads: where more values are alive than there are registers, a loaded value is loaded again
// for its next reader instead of being kept. Cheaper than what allocation would do, which is to
// store it first. Only loads without a gate, from buffers that the kernel does not write, inside
// one block. Contract: the same meaning; runs after schedule. Threading: pure.
#pragma once

#include "runtime/isa/machine.h"
#include "runtime/isa/regalloc.h"

namespace modeld::isa {

void split_loads(Function& f, const RegisterFile& file);

}  // namespace modeld::isa
