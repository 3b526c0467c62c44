// Scalar arithmetic of the interpreters: what one operation gives on one lane. Integers are exact
// in 64 bits and wrapped to their type; floats are doubles that the caller rounds where it wants.
// Contract: division by zero or an op of the wrong kind is an error. Threading: pure.
#pragma once

#include <cstdint>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

namespace modeld::testing {

struct Scalar {
  double f = 0;
  int64_t i = 0;
  bool invalid = false;
};

Scalar scalar_constant(const ir::Node* n);
Scalar scalar_convert(ir::DType from, ir::DType to, Scalar v);
Scalar scalar_bitcast(ir::DType from, ir::DType to, Scalar v);
// Unary, binary and ternary math but WHERE; the type of the last operand decides between floats
// and integers.
Result<Scalar> scalar_alu(const ir::Node* n, const Scalar* operands);

}  // namespace modeld::testing
