// Node::tag of an INS (machine instruction): what it does to memory. Set by runtime/isa, read by
// linearize for its priorities. Threading: constants.
#pragma once

#include <cstdint>

namespace modeld::codegen {

enum InsTag : uint32_t {
  kInsPlain = 0,
  kInsLoad = 1,      // memory operand
  kInsStore = 2,     // memory operand, no result
  kInsPool = 3,      // sources: the bits as CONST, their bytes as CONST
  kInsAccRead = 4,   // sources: register buffer state, CONST first element, CONST bytes
  kInsAccWrite = 5,  // the same, then the value
  kInsAddress = 6,   // memory operand that is only computed
};

}  // namespace modeld::codegen
