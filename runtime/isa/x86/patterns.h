// Operations that are one instruction on registers: the table isel looks into before anything
// special. Threading: constants.
#pragma once

#include "runtime/ir/dtype.h"
#include "runtime/ir/op.h"

namespace modeld::isa::x86 {

struct Pattern {
  ir::Op op;
  ir::DType type;
  const char* scalar;  // null: none
  const char* vector;  // without width; null: none
  enum class Shape : uint8_t { kBinary, kUnary, kScalarTwice, kTwice } shape;
};
// Null if the table has no row.
const Pattern* find_pattern(ir::Op op, ir::DType t);

// Instructions that load and store one element or a whole register.
struct Access {
  const char* load;
  const char* store;
};
Access scalar_access(ir::DType t);
Access vector_access(int64_t bytes);  // 4, 8, 16, 32

}  // namespace modeld::isa::x86
