// Exact: what is known of a value's digits, so that random programs only make values on which every
// order of evaluation, contraction and fusion gives the same bits. Then results are compared for
// equality and no tolerance hides a fault. Contract: low <= x <= high for every element; |y| <=
// peak for every sum y of parts of it that some rewriting may form; all are multiples of 2^-grain.
// Threading: plain values.
#pragma once

#include <span>

#include "runtime/ir/dtype.h"
#include "runtime/ir/op.h"

#include "selftest/testing/eager_array.h"

namespace modeld::fuzz {

struct Exact {
  double low = 0, high = 0;
  double peak = 0;
  int grain = 0;
};

Exact exact_range(double low, double high, int grain = 0);

// Of contents in memory: nothing is reordered across a store.
Exact exact_of(const testing::EagerArray& contents);
Exact exact_alu(ir::Op op, std::span<const Exact> args);
Exact exact_reduce(ir::Op op, const Exact& x, int64_t count);
Exact exact_cast(const Exact& x, ir::DType to);
Exact exact_union(const Exact& a, const Exact& b);

// True if type t holds all such values without rounding or wrapping. u8 may wrap, because no
// rewriting changes what comes out modulo 256; then the range is the type's.
bool fits(ir::DType t, Exact* e);

}  // namespace modeld::fuzz
