// allocate_registers: virtual to physical registers by one scan over the lines. A value that has no
// register when it is read is filled, the value whose next read is furthest away makes room, and a
// value that a line without operands makes is made again instead of kept. At a loop's head the
// values that the loop reads get registers in the order in which it reads them; at its end every
// value goes back to where the head had it, so the head's state holds on both ways into the body.
// Contract: see machine.h; a register class with too few registers for one line is kInternal.
// Afterwards defs and uses are physical numbers, kSpill/kFill/kMove lines stand where they are
// needed, tied lines have def == use[0] and frame_bytes is set. Threading: pure.
#pragma once

#include <span>

#include "hal/base/status.h"

#include "runtime/isa/machine.h"

namespace modeld::isa {

struct RegisterFile {
  // Physical numbers that may be given out, in order of preference. Numbers of the two classes
  // must differ.
  std::vector<Reg> free[kRegClasses];
};

Status allocate_registers(Function& f, const RegisterFile& file);

}  // namespace modeld::isa
