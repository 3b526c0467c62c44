// One op on one element, exactly: integers by the machine's rules, floats in long double.
// Threading: pure functions.
#pragma once

#include "runtime/ir/dtype.h"
#include "runtime/ir/op.h"

namespace modeld::ops {

// A float's value in `f`, everything else in `i`.
struct Element {
  long double f = 0;
  int64_t i = 0;
};

// Operands of type t (WHERE: a[0] bool): three for WHERE and MULACC, else two, the second unused by
// an op of one.
Element reference(ir::Op op, ir::DType t, const Element* a);
Element reference_cast(ir::DType from, ir::DType to, Element a);
Element reference_bitcast(ir::DType from, ir::DType to, Element a);

// Distance of `got` from the exact value in units in the last place of t; infinite when one is no
// number or infinite and the other is not the same.
long double units_off(ir::DType t, double got, long double exact);

}  // namespace modeld::ops
