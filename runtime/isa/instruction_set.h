// What the frame must know of an instruction set. Everything else (what an operation computes, how
// it is encoded) stays in the set's own folder. Contract: constant after construction.
// Threading: any thread.
#pragma once

#include <string_view>

#include "runtime/ir/dtype.h"
#include "runtime/isa/machine.h"
#include "runtime/isa/regalloc.h"

namespace modeld::isa {

struct InsDesc {
  uint16_t op = 0;
  char width = 0;
  bool has_result = false;
  bool tied = false;   // see Line
  bool early = false;  // see Line
  RegInfo result;
};

class InstructionSet {
 public:
  virtual ~InstructionSet() = default;
  // False: there is no such instruction.
  virtual bool describe(std::string_view mnemonic, InsDesc* out) const = 0;
  virtual const RegisterFile& file() const = 0;
  // Physical register in which argument i of the kernel arrives: 0 words, 1 core_id.
  virtual Reg argument(size_t i) const = 0;
  // The line that sets a loop counter of this width to 0.
  virtual Line zero(Reg counter, char width) const = 0;
  virtual char counter_width(ir::DType t) const = 0;
  // Whether the reader may take what the load reads as its last operand, from memory.
  virtual bool can_fold(const Line& load, const Line& reader) const = 0;
  // Whether the last two operands may change places.
  virtual bool can_swap(const Line& line) const = 0;
};

}  // namespace modeld::isa
