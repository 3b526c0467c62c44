// Reductions and matrix products. REDUCE works on leading axes, so the reduced ones are moved to
// the front.
#include <algorithm>
#include <numeric>

#include "runtime/tensor/internal.h"
#include "runtime/tensor/nn.h"
#include "runtime/tensor/tensor.h"

namespace modeld::tensor {
namespace {

using ir::Op;

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

bool contains(const Dims& list, int64_t v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

// Resolved axes of a method, and the dims it returns.
struct Plan {
  Dims axes;
  Dims out;
};

Plan plan(const Tensor& x, const Dims& axes, bool keep, const char* what) {
  const Dims d = x.dims();
  Plan p;
  p.axes = wrap_axes(x.graph(), axes, static_cast<int64_t>(d.size()), what);
  for (size_t i = 0; i < d.size(); ++i) {
    const bool gone = contains(p.axes, static_cast<int64_t>(i));
    if (!gone || keep) p.out.push_back(gone ? 1 : d[i]);
  }
  return p;
}

int64_t reduced_count(const Tensor& x, const Dims& axes) {
  int64_t n = 1;
  const Dims d = x.dims();
  for (const int64_t a : axes) n *= d[at(a)];
  return n;
}

}  // namespace

Tensor reduce_axes(const Tensor& x, Op op, const Dims& axes) {
  ir::Graph& g = x.graph();
  if (broken(x)) return placeholder(g);
  const Dims d = x.dims();
  Dims order, flat;  // reduced axes first; size 1 needs no loop
  for (const int64_t a : axes) {
    if (d[at(a)] != 1) order.push_back(a);
  }
  const auto k = static_cast<int64_t>(order.size());
  for (size_t i = 0; i < d.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    if (!contains(axes, axis)) flat.push_back(d[i]);
    if (!contains(order, axis)) order.push_back(axis);
  }
  if (k == 0) return x.reshape(flat);
  const Tensor moved = x.permute(order);
  return Tensor(g, g.make(Op::kReduce, x.dtype(), {moved.node()}, ir::ReduceArg{op, k}))
      .reshape(flat);
}

Tensor Tensor::sum(const Dims& axes, bool keep) const {
  if (broken(*this)) return placeholder(*graph_);
  const Plan p = plan(*this, axes, keep, "sum");
  if (graph_->failed()) return placeholder(*graph_);
  const Tensor r = reduce_axes(cast(ir::sum_dtype(dtype())), Op::kAdd, p.axes).reshape(p.out);
  return ir::is_float(dtype()) ? r.cast(dtype()) : r;
}

Tensor Tensor::prod(const Dims& axes, bool keep) const {
  if (broken(*this)) return placeholder(*graph_);
  const Plan p = plan(*this, axes, keep, "prod");
  if (graph_->failed()) return placeholder(*graph_);
  const Tensor r = reduce_axes(cast(ir::sum_dtype(dtype())), Op::kMul, p.axes).reshape(p.out);
  return ir::is_float(dtype()) ? r.cast(dtype()) : r;
}

Tensor Tensor::max(const Dims& axes, bool keep) const {
  if (broken(*this)) return placeholder(*graph_);
  const Plan p = plan(*this, axes, keep, "max");
  if (!graph_->failed() && reduced_count(*this, p.axes) == 0)
    return bad(*graph_, "max: over no elements");
  if (graph_->failed()) return placeholder(*graph_);
  if (dtype() == DType::kBool) return cast(DType::kU8).max(axes, keep).cast(DType::kBool);
  return reduce_axes(*this, Op::kMax, p.axes).reshape(p.out);
}

// The order-reversing map of each type: minus for floats, complement for integers (it has no
// overflow).
Tensor Tensor::min(const Dims& axes, bool keep) const {
  if (broken(*this)) return placeholder(*graph_);
  if (dtype() == DType::kBool) return logical_not().max(axes, keep).logical_not();
  if (ir::is_float(dtype())) return neg().max(axes, keep).neg();
  return bit_xor(literal(-1)).max(axes, keep).bit_xor(literal(-1));
}

Tensor Tensor::mean(const Dims& axes, bool keep) const {
  if (broken(*this)) return placeholder(*graph_);
  const DType t = ir::is_float(dtype()) ? dtype() : DType::kF32;
  const int64_t n = reduced_count(*this, wrap_axes(*graph_, axes, rank(), "mean"));
  if (n == 0) return bad(*graph_, "mean: over no elements");
  return cast(compute_dtype(t)).sum(axes, keep).mul(1.0 / static_cast<double>(n)).cast(t);
}

Tensor Tensor::var(const Dims& axes, bool keep, int64_t correction) const {
  if (broken(*this)) return placeholder(*graph_);
  const DType t = ir::is_float(dtype()) ? dtype() : DType::kF32;
  const Tensor x = cast(compute_dtype(t));
  const int64_t n = reduced_count(*this, wrap_axes(*graph_, axes, rank(), "var")) - correction;
  if (n <= 0)
    return bad(*graph_,
               strf("var: over %lld elements with correction %lld",
                    static_cast<long long>(n + correction), static_cast<long long>(correction)));
  const Tensor away = x - x.mean(axes, true);
  return away.square().sum(axes, keep).mul(1.0 / static_cast<double>(n)).cast(t);
}

// The largest position (counted from the side asked for) among the elements that equal the maximum.
Tensor Tensor::argmax(int64_t axis, bool keep, bool last) const {
  if (broken(*this)) return placeholder(*graph_);
  axis = wrap_axis(*graph_, axis, rank(), "argmax");
  if (graph_->failed()) return placeholder(*graph_);
  const int64_t n = dim(axis);
  Dims along(at(rank()), 1);
  along[at(axis)] = n;
  const Tensor forward = arange(*graph_, n).reshape(along);
  const Tensor position = last ? forward : (n - 1) - forward;
  const Tensor best = eq(max({axis}, true)).where(position, position.literal(0)).max({axis}, keep);
  return last ? best : (n - 1) - best;
}

Tensor Tensor::cumsum(int64_t axis) const {
  if (broken(*this)) return placeholder(*graph_);
  axis = wrap_axis(*graph_, axis, rank(), "cumsum");
  if (graph_->failed()) return placeholder(*graph_);
  const Tensor moved = transpose(axis, -1);
  const int64_t n = moved.dim(-1);
  if (n <= 1) return cast(ir::is_float(dtype()) ? dtype() : ir::sum_dtype(dtype()));
  Dims before(at(rank()), 0);
  before.back() = n - 1;
  return windows(moved.pad(before, Dims(at(rank()), 0)), {n}, {}, {}).sum({-1}).transpose(axis, -1);
}

Tensor Tensor::matmul(const Tensor& o) const {
  if (broken(*this) || broken(o)) return placeholder(*graph_);
  const Dims a = dims();
  const Dims b = o.dims();
  if (a.empty() || b.empty()) return bad(*graph_, "matmul: of a scalar");
  const int64_t inner = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (a.back() != inner)
    return bad(*graph_, strf("matmul: %s by %s", dims_text(a).c_str(), dims_text(b).c_str()));
  if (a.size() == 1) return reshape({1, a[0]}).matmul(o).squeeze({b.size() == 1 ? -1 : -2});
  if (b.size() == 1) return matmul(o.reshape({b[0], 1})).squeeze({-1});
  const DType t = promoted(dtype(), o.dtype());
  const DType wide = ir::is_float(t) ? compute_dtype(t) : ir::sum_dtype(t);
  const Tensor left = cast(wide).unsqueeze({-2});                       // (..., m, 1, k)
  const Tensor right = o.cast(wide).transpose(-1, -2).unsqueeze({-3});  // (..., 1, n, k)
  return left.mul(right).sum({-1}).cast(ir::is_float(t) ? t : wide);
}

}  // namespace modeld::tensor
