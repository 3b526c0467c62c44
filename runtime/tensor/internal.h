// Helpers shared by the .cc files of this folder; not part of the front end.
// Contract: bad() latches the Graph's error once and gives a placeholder that every method passes
// on. Threading: as the Graph.
#pragma once

#include <string>

#include "hal/base/check.h"
#include "hal/base/status.h"

#include "runtime/ir/derived.h"
#include "runtime/ir/graph.h"
#include "runtime/tensor/tensor.h"

namespace modeld::tensor {

// True when an earlier error makes building pointless.
inline bool broken(const Tensor& t) {
  CHECK(t.valid());
  return t.graph().failed();
}

inline Tensor placeholder(ir::Graph& g) {
  return {g, ir::const_float(g, 0.0, DType::kF32)};
}
inline Tensor bad(ir::Graph& g, std::string what) {
  g.fail(Errc::kInvalid, std::move(what));
  return placeholder(g);
}

// More elements than any tensor may have, so that sizes, strides and positions never overflow.
inline constexpr int64_t kMaxElements = int64_t{1} << 46;

// The axis counted from the front; latches an error and gives 0 if there is none.
int64_t wrap_axis(ir::Graph& g, int64_t axis, int64_t rank, const char* what);
// Distinct axes, sorted; empty = all.
Dims wrap_axes(ir::Graph& g, const Dims& axes, int64_t rank, const char* what);

// Common type of two operands; a result that is still weak beside a concrete operand becomes
// strong.
DType promoted(DType a, DType b);
// Type in which half-precision values are computed: f32 for f16 and bf16.
DType compute_dtype(DType t);

// One REDUCE over the given axes, result without them.
Tensor reduce_axes(const Tensor& x, ir::Op op, const Dims& axes);

// INDEX without clamping: the caller knows that positions are in range.
Tensor index_flat(const Tensor& x, const Tensor& position);

}  // namespace modeld::tensor
