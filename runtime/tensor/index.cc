// Gathers: INDEX into the flat elements of a tensor at computed positions.
#include "runtime/tensor/internal.h"
#include "runtime/tensor/tensor.h"

namespace modeld::tensor {
namespace {

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

DType position_dtype(int64_t count) {
  return count > INT32_MAX ? DType::kI64 : DType::kI32;
}

// A buffer, or a state of one, under nothing but reshapes.
bool is_stored(const ir::Node* n) {
  while (n->is(ir::Op::kReshape)) n = n->src(0);
  return ir::has_buffer_identity(n) || n->is(ir::Op::kContiguous) ||
         (n->is(ir::Op::kAfter) && ir::has_buffer_identity(n->src(0)));
}

// Negative indices count from the back; the rest is clamped to 0 .. n-1.
Tensor safe_index(const Tensor& index, int64_t n, DType t) {
  const Tensor i = index.cast(t);
  const Tensor wrapped = ir::is_unsigned(index.dtype()) ? i : i.lt(0).where(i + n, i);
  return wrapped.clamp(0, n - 1);
}

bool good_index(const Tensor& x, const Tensor& index, const char* what) {
  if (broken(x) || broken(index)) return false;
  if (ir::is_int(index.dtype())) return true;
  x.graph().fail(Errc::kInvalid, strf("%s: index of type %s", what, ir::dtype_name(index.dtype())));
  return false;
}

}  // namespace

Tensor index_flat(const Tensor& x, const Tensor& position) {
  if (broken(x) || broken(position)) return placeholder(x.graph());
  ir::Graph& g = x.graph();
  Tensor flat = x.reshape({x.count()});
  const bool has_memory_kind =
      !ir::device(g, flat.node()).empty();  // values made of constants stay expressions
  if (has_memory_kind && !is_stored(flat.node())) flat = flat.contiguous();
  return {g, g.make(ir::Op::kIndex, x.dtype(), {flat.node(), position.node()})};
}

Tensor gather_flat(const Tensor& x, const Tensor& position) {
  if (!good_index(x, position, "gather_flat")) return placeholder(x.graph());
  const int64_t n = x.count();
  if (n == 0) return bad(x.graph(), "gather_flat: from no elements");
  return index_flat(x, position.cast(position_dtype(n)).clamp(0, n - 1));
}

Tensor gather(const Tensor& x, const Tensor& index, int64_t axis) {
  ir::Graph& g = x.graph();
  if (!good_index(x, index, "gather")) return placeholder(g);
  const Dims d = x.dims();
  axis = wrap_axis(g, axis, static_cast<int64_t>(d.size()), "gather");
  if (g.failed()) return placeholder(g);
  const int64_t n = d[at(axis)];
  if (x.count() == 0) return bad(g, strf("gather: from %s", dims_text(d).c_str()));
  const std::span<const int64_t> all(d);
  const int64_t outer = product(all.first(at(axis)));
  const int64_t inner = product(all.subspan(at(axis) + 1));
  const DType t = position_dtype(x.count());
  const int64_t picks = index.count();
  Tensor position = safe_index(index, n, t).reshape({1, picks, 1}) * inner;
  if (outer > 1)
    position = Tensor::arange(g, outer, t).reshape({outer, 1, 1}) * (n * inner) + position;
  if (inner > 1) position = position + Tensor::arange(g, inner, t).reshape({1, 1, inner});
  const Dims picked = index.dims();
  Dims out(d.begin(), d.begin() + axis);
  out.insert(out.end(), picked.begin(), picked.end());
  out.insert(out.end(), d.begin() + axis + 1, d.end());
  return index_flat(x, position).reshape(out);
}

Tensor gather_elements(const Tensor& x, const Tensor& index, int64_t axis) {
  ir::Graph& g = x.graph();
  if (!good_index(x, index, "gather_elements")) return placeholder(g);
  const Dims d = x.dims();
  const Dims out = index.dims();
  axis = wrap_axis(g, axis, static_cast<int64_t>(d.size()), "gather_elements");
  bool fits = out.size() == d.size() && x.count() > 0;
  for (size_t i = 0; fits && i < d.size(); ++i) fits = i == at(axis) || out[i] <= d[i];
  if (!fits)
    return bad(
        g, strf("gather_elements: index %s into %s", dims_text(out).c_str(), dims_text(d).c_str()));
  const DType t = position_dtype(x.count());
  int64_t stride = 1;
  Tensor position;
  for (size_t i = d.size(); i-- > 0;) {
    Dims along(d.size(), 1);
    along[i] = out[i];
    const Tensor here =
        i == at(axis) ? safe_index(index, d[i], t) : Tensor::arange(g, out[i], t).reshape(along);
    position = position.valid() ? here * stride + position : here * stride;
    stride *= d[i];
  }
  return index_flat(x, position);
}

}  // namespace modeld::tensor
