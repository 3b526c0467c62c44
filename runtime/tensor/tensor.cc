#include "runtime/tensor/tensor.h"

#include <algorithm>
#include <cstring>

#include "runtime/tensor/assign.h"
#include "runtime/tensor/internal.h"

namespace modeld::tensor {

// ---- shared helpers ----

int64_t product(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (const int64_t d : dims) {
    if (__builtin_mul_overflow(n, d, &n)) return INT64_MAX;
  }
  return n;
}

std::string dims_text(std::span<const int64_t> dims) {
  if (dims.empty()) return "scalar";
  std::string out;
  for (size_t i = 0; i < dims.size(); ++i) out += (i ? "x" : "") + std::to_string(dims[i]);
  return out;
}

Dims broadcast_dims(ir::Graph& g, const Dims& a, const Dims& b, const char* what) {
  Dims out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {  // from the right
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      g.fail(Errc::kInvalid, strf("%s: %s and %s do not broadcast", what, dims_text(a).c_str(),
                                  dims_text(b).c_str()));
      return {};
    }
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  if (product(out) > kMaxElements) {
    g.fail(Errc::kInvalid, strf("%s: %s is too large", what, dims_text(out).c_str()));
    return {};
  }
  return out;
}

int64_t wrap_axis(ir::Graph& g, int64_t axis, int64_t rank, const char* what) {
  if (axis < -rank || axis >= rank) {
    g.fail(Errc::kInvalid, strf("%s: axis %lld of a tensor with %lld axes", what,
                                static_cast<long long>(axis), static_cast<long long>(rank)));
    return 0;
  }
  return axis < 0 ? axis + rank : axis;
}

Dims wrap_axes(ir::Graph& g, const Dims& axes, int64_t rank, const char* what) {
  Dims out;
  if (axes.empty()) {
    for (int64_t i = 0; i < rank; ++i) out.push_back(i);
    return out;
  }
  for (const int64_t a : axes) out.push_back(wrap_axis(g, a, rank, what));
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) {
    g.fail(Errc::kInvalid, strf("%s: an axis is named twice", what));
    out.erase(std::unique(out.begin(), out.end()), out.end());
  }
  return out;
}

DType promoted(DType a, DType b) {
  const DType t = ir::least_upper(a, b);
  return ir::is_weak(t) && !(ir::is_weak(a) && ir::is_weak(b)) ? ir::strong(t) : t;
}

DType compute_dtype(DType t) {
  return ir::is_narrow_float(t) ? DType::kF32 : t;
}

// ---- sources ----

namespace {

bool good_dims(ir::Graph& g, const Dims& dims, const char* what) {
  const bool negative = std::any_of(dims.begin(), dims.end(), [](int64_t d) { return d < 0; });
  if (!negative && product(dims) <= kMaxElements) return true;
  g.fail(Errc::kInvalid, strf("%s: bad dims %s", what, dims_text(dims).c_str()));
  return false;
}

Tensor shaped_buffer(ir::Graph& g,
                     int64_t slot,
                     const Dims& dims,
                     DType dtype,
                     const std::string& device,
                     const std::string& name) {
  const ir::Node* flat =
      ir::buffer(g, slot, dtype, product(dims), ir::AddrSpace::kGlobal, device, name);
  return Tensor(g, flat).reshape(dims);
}

}  // namespace

Tensor Tensor::input(ir::Graph& g,
                     const std::string& name,
                     const Dims& dims,
                     DType dtype,
                     const std::string& device) {
  if (!good_dims(g, dims, "input")) return placeholder(g);
  if (ir::is_weak(dtype) || dtype == DType::kVoid)
    return bad(g, strf("input: '%s' cannot be stored as %s", name.c_str(), ir::dtype_name(dtype)));
  return shaped_buffer(g, g.fresh(), dims, dtype, device, name);
}

Tensor Tensor::from_data(ir::Graph& g,
                         WeightStore& store,
                         std::span<const std::byte> bytes,
                         const Dims& dims,
                         DType dtype,
                         const std::string& device) {
  if (!good_dims(g, dims, "from_data")) return placeholder(g);
  if (ir::is_weak(dtype) || dtype == DType::kVoid)
    return bad(g, strf("from_data: no storage has type %s", ir::dtype_name(dtype)));
  int64_t want = 0;
  if (__builtin_mul_overflow(product(dims), static_cast<int64_t>(ir::item_size(dtype)), &want) ||
      want != static_cast<int64_t>(bytes.size())) {
    return bad(g, strf("from_data: %s of %s needs other than the %zu bytes given",
                       dims_text(dims).c_str(), ir::dtype_name(dtype), bytes.size()));
  }
  return shaped_buffer(g, store.add(g, dtype, bytes), dims, dtype, device, "");
}

Tensor Tensor::from_floats(ir::Graph& g,
                           WeightStore& store,
                           std::span<const float> v,
                           const Dims& dims,
                           const std::string& device) {
  return from_data(g, store, std::as_bytes(v), dims, DType::kF32, device);
}

Tensor Tensor::from_ints(ir::Graph& g,
                         WeightStore& store,
                         std::span<const int64_t> v,
                         const Dims& dims,
                         DType dtype,
                         const std::string& device) {
  if (!ir::is_int(dtype) || ir::is_weak(dtype))
    return bad(g, strf("from_ints: %s is not a stored integer type", ir::dtype_name(dtype)));
  const auto item = static_cast<size_t>(ir::item_size(dtype));
  std::vector<std::byte> bytes(v.size() * item);
  for (size_t i = 0; i < v.size(); ++i)
    std::memcpy(bytes.data() + i * item, &v[i], item);  // little endian
  return from_data(g, store, bytes, dims, dtype, device);
}

Tensor Tensor::constant(ir::Graph& g, Scalar v, DType dtype) {
  return {g, v.is_float ? ir::const_of(g, dtype, v.f) : ir::const_int(g, v.i, dtype)};
}

Tensor Tensor::full(ir::Graph& g, const Dims& dims, Scalar v, DType dtype) {
  if (!good_dims(g, dims, "full")) return placeholder(g);
  return constant(g, v, dtype).expand(dims);
}

constexpr int64_t kArangeRow = int64_t{1} << 20;

// Row i of the windows over (n zeros, n-1 ones) holds i ones: their sum needs no storage and folds
// away.
Tensor Tensor::arange(ir::Graph& g, int64_t n, DType dtype) {
  if (n < 0 || n > kMaxElements)
    return bad(g, strf("arange: %lld elements", static_cast<long long>(n)));
  if (n <= 1) return full(g, {n}, 0, dtype);
  if (n > kArangeRow) {  // rows of a grid; the rule below is quadratic
    const int64_t rows = (n + kArangeRow - 1) / kArangeRow;
    const Tensor grid =
        arange(g, rows, dtype).reshape({rows, 1}) * kArangeRow + arange(g, kArangeRow, dtype);
    return grid.reshape({rows * kArangeRow}).shrink({0}, {n});
  }
  // [r, o] -> element r + o of the padded row, by the same repeat / shrink / reshape steps as
  // windows().
  const Tensor row = full(g, {n - 1}, 1, dtype).pad({n}, {0});
  const int64_t len = 2 * n - 1;
  const int64_t times = (n * (len + 1) + len - 1) / len;
  const Tensor grid =
      row.repeat({times}).shrink({0}, {n * (len + 1)}).reshape({n, len + 1}).shrink({0, 0}, {n, n});
  return reduce_axes(grid, ir::Op::kAdd, {0});
}

Tensor Tensor::arange(ir::Graph& g, Scalar start, Scalar step, int64_t n, DType dtype) {
  return arange(g, n, dtype).mul(constant(g, step, dtype)).add(constant(g, start, dtype));
}

Tensor Tensor::variable(ir::Graph& g, const std::string& name, int64_t vmin, int64_t vmax) {
  if (vmin > vmax) return bad(g, strf("variable '%s': empty range", name.c_str()));
  return {g, ir::variable(g, name, vmin, vmax)};
}

// ---- queries ----

Dims Tensor::dims() const {
  CHECK(valid());
  return ir::dims(*graph_, node_);
}

int64_t Tensor::rank() const {
  return static_cast<int64_t>(dims().size());
}
int64_t Tensor::count() const {
  return product(dims());
}

int64_t Tensor::dim(int64_t axis) const {
  const Dims d = dims();
  const int64_t a = wrap_axis(*graph_, axis, static_cast<int64_t>(d.size()), "dim");
  return d.empty() ? 1 : d[static_cast<size_t>(a)];
}

// ---- memory ----

Tensor Tensor::contiguous() const {
  if (broken(*this) || node_->is(ir::Op::kContiguous)) return *this;
  return {*graph_, graph_->make(ir::Op::kContiguous, node_->dtype, {node_})};
}

Tensor assign(const Tensor& dst, const Tensor& x) {
  if (broken(dst) || broken(x)) return placeholder(dst.graph());
  ir::Graph& g = dst.graph();
  // The state being overwritten: below a view, the first node that is a whole buffer or an earlier
  // state.
  const ir::Node* state = dst.node();
  while (!ir::has_buffer_identity(state) && !state->is(ir::Op::kAfter)) {
    if (!ir::kMovementOps.has(state->op)) {
      g.fail(ir::Fault::kAssignUnrealised,
             strf("assign: the target is a %s, not a buffer or a view of one",
                  ir::op_name(state->op)));
      return placeholder(g);
    }
    state = state->src(0);
  }
  const auto checked = assign_value(dst, x);
  if (!checked.ok()) {
    if (!g.failed()) g.fail(ir::fault_of(checked.error()), checked.error().what);
    return placeholder(g);
  }
  const Tensor& value = *checked;
  if (value.node() == dst.node()) return {g, state};
  const ir::Node* store = g.make(ir::Op::kStore, DType::kVoid, {dst.node(), value.node()});
  return {g, g.make(ir::Op::kAfter, state->dtype, {state, store})};
}

}  // namespace modeld::tensor
