// Arrays computed at once, element by element, in the plainest way: what random tensor programs are
// compared with. It knows no graph, no buffer and no device, and shares no code with what it
// judges. Contract: elements are doubles, which hold every value of the types used here (float,
// integers up to 32 bits, bool) exactly; results are wrapped (integers) or rounded (floats) to
// their type; shapes must fit (they come from a checked program). Threading: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/ir/dtype.h"
#include "runtime/ir/op.h"

namespace modeld::testing {

using Ints = std::vector<int64_t>;

int64_t count_of(const Ints& dims);

struct EagerArray {
  ir::DType dtype = ir::DType::kF32;
  Ints dims;
  std::vector<double> v;  // row by row

  bool operator==(const EagerArray&) const = default;
};

// What a movement does: the dims of the result and, per element of it, which element of the source
// it shows; -1 is a 0 that padding put in.
struct Movement {
  Ints dims;
  Ints from;
};

Movement move_reshape(const Ints& dims, const Ints& to);
Movement move_permute(const Ints& dims, const Ints& order);
Movement move_expand(const Ints& dims, const Ints& to);  // right-aligned, 1 -> n
Movement move_shrink(const Ints& dims, const Ints& starts, const Ints& lengths);
Movement move_pad(const Ints& dims, const Ints& before, const Ints& after);
Movement move_flip(const Ints& dims, const Ints& axes);

EagerArray moved(const EagerArray& x, const Movement& m);

// Dims of right-aligned broadcasting; they must fit.
Ints broadcast(const Ints& a, const Ints& b);
bool broadcasts(const Ints& a, const Ints& b);

// Operands of one type (WHERE: a bool and two of one type), broadcast to each other.
EagerArray elementwise(ir::Op op, std::span<const EagerArray* const> args);
EagerArray converted(const EagerArray& x, ir::DType to);
// ADD (in sum_dtype for integers, floats keep their type), MAX; the axes stay with size 1.
EagerArray reduced(ir::Op op, const EagerArray& x, const Ints& axes);
EagerArray joined(std::span<const EagerArray* const> parts, int64_t axis);

// The value nearest to v that type t stores; integers wrap.
double stored(ir::DType t, double v);

}  // namespace modeld::testing
