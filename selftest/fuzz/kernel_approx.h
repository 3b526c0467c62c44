// A value and how far a correct kernel may be from it. Integers are exact. Floats carry a bound of
// the absolute error that any legal order of evaluation, and any rounding to the value's type or to
// a wider one, can have made; what no bound can be given for (a comparison nobody can decide, an
// overflow that depends on the order) is unknown, and so is what follows from it.
// Contract: exact arithmetic is done in long double, whose own rounding is far below the bounds of
// every type. Threading: values.
#pragma once

#include <cstdint>

#include "runtime/ir/dtype.h"
#include "runtime/ir/op.h"

namespace modeld::fuzz {

struct Approx {
  long double v = 0;    // floats
  long double err = 0;  // |kernel's value - v| <= err
  int64_t i = 0;        // everything else; unsigned 64-bit values by their bits
  bool is_known = true;

  static Approx of_int(int64_t i);
  static Approx of_float(long double v, long double err = 0);
  static Approx unknown();
};

// Half the distance of neighbours relative to the value, half the smallest distance, largest value.
long double unit_of(ir::DType t);
long double tiny_of(ir::DType t);
long double largest_of(ir::DType t);

// One more rounding to type t.
Approx rounded(ir::DType t, Approx a);
// Elementwise ops of a kernel AST; `t` is the type of the operands. a[k] is source k.
Approx approx_alu(ir::Op op, ir::DType t, const Approx* a);
Approx approx_where(ir::DType t, const Approx& c, const Approx& yes, const Approx& no);
Approx approx_cast(ir::DType from, ir::DType to, const Approx& a);
Approx approx_bitcast(ir::DType from, ir::DType to, const Approx& a);

// A reduce in any order and grouping.
class ApproxReduce {
 public:
  ApproxReduce(ir::Op op, ir::DType t);
  void add(const Approx& a);
  Approx result() const;

 private:
  ir::Op op_;
  ir::DType t_;
  Approx sum_;
  int64_t count_ = 0;
  long double magnitude_ = 0, least_ = 1, most_ = 1;
  bool is_finite_ = true, has_nan_ = false;
};

// Is `got` (a float's value, else the integer) what the kernel may have stored?
bool agrees(ir::DType t, const Approx& want, double got_float, int64_t got_int);

}  // namespace modeld::fuzz
