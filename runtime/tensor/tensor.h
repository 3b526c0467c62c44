// Tensor: the front end's value handle on a graph node. Every method only builds nodes; nothing
// runs here. Everything is composed from few primitives: elementwise ops with implicit broadcasting
// (right-aligned, size 1 against n), movement ops, REDUCE over leading axes, and INDEX into flat
// storage. Dtypes: operands are promoted by least_upper; plain numbers (Scalar) are weak and take
// their partner's type. Errors: bad shapes or types latch the Graph's first error ("concat: ...")
// and give a scalar placeholder, so chains stay readable; ask status() at the end. Using a
// default-constructed Tensor is a bug. Lifetime: a Tensor must not outlive its Graph. Units: dims
// in elements. Threading: as the Graph, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/tensor/weight_store.h"

namespace modeld::tensor {

using Dims = std::vector<int64_t>;
using ir::DType;

// A plain number in an expression: weakly typed.
struct Scalar {
  Scalar(int v) : i(v), f(v) {}  // NOLINT(google-explicit-constructor) literal
  Scalar(int64_t v)
      : i(v), f(static_cast<double>(v)) {}          // NOLINT(google-explicit-constructor) literal
  Scalar(double v) : is_float(true), i(0), f(v) {}  // NOLINT(google-explicit-constructor) literal
  bool is_float = false;
  int64_t i;
  double f;
};

// One axis of slice(): elements begin, begin+step, ... before end. Negative begin/end count from
// the back; both are clamped to the axis. step may be negative (then end = kToFront means "through
// element 0").
struct Slice {
  static constexpr int64_t kToEnd = INT64_MAX;
  static constexpr int64_t kToFront = INT64_MIN;
  int64_t begin = 0;
  int64_t end = kToEnd;
  int64_t step = 1;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(ir::Graph& g, const ir::Node* n) : graph_(&g), node_(n) {}

  // ---- sources ----
  // A named BUFFER with a fresh slot.
  static Tensor input(ir::Graph& g,
                      const std::string& name,
                      const Dims& dims,
                      DType dtype,
                      const std::string& device = "CPU");
  // Constant data; bytes must be exactly dims x item size (bool: one byte, 0 or 1).
  static Tensor from_data(ir::Graph& g,
                          WeightStore& store,
                          std::span<const std::byte> bytes,
                          const Dims& dims,
                          DType dtype,
                          const std::string& device = "CPU");
  static Tensor from_floats(ir::Graph& g,
                            WeightStore& store,
                            std::span<const float> v,
                            const Dims& dims,
                            const std::string& device = "CPU");
  static Tensor from_ints(ir::Graph& g,
                          WeightStore& store,
                          std::span<const int64_t> v,
                          const Dims& dims,
                          DType dtype = DType::kI32,
                          const std::string& device = "CPU");
  // Values without storage.
  static Tensor constant(ir::Graph& g, Scalar v, DType dtype);
  static Tensor full(ir::Graph& g, const Dims& dims, Scalar v, DType dtype);
  static Tensor arange(ir::Graph& g, int64_t n, DType dtype = DType::kI32);  // 0 .. n-1
  static Tensor arange(ir::Graph& g, Scalar start, Scalar step, int64_t n, DType dtype);
  // A scalar bound at run time, vmin <= value <= vmax.
  static Tensor variable(ir::Graph& g, const std::string& name, int64_t vmin, int64_t vmax);

  // ---- queries ----
  bool valid() const { return node_ != nullptr; }
  const ir::Node* node() const { return node_; }
  ir::Graph& graph() const { return *graph_; }
  DType dtype() const { return node_->dtype; }
  Dims dims() const;
  int64_t dim(int64_t axis) const;  // negative axis counts from the back
  int64_t rank() const;
  int64_t count() const;  // elements
  Status status() const { return graph_->status(); }

  // ---- elementwise (elementwise.cc, math.cc) ----
  Tensor cast(DType t) const;     // float to int truncates toward zero
  Tensor bitcast(DType t) const;  // last axis scales by the item sizes
  Tensor neg() const;
  Tensor abs() const;
  Tensor sign() const;
  Tensor reciprocal() const;
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor square() const { return mul(*this); }
  Tensor exp2() const;
  Tensor log2() const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor tan() const;
  Tensor trunc() const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const;  // half to even
  Tensor erf() const;    // absolute error <= 2e-7 in f32
  Tensor tanh() const;
  Tensor sigmoid() const;
  Tensor logical_not() const;

  Tensor add(const Tensor& o) const;
  Tensor sub(const Tensor& o) const;
  Tensor mul(const Tensor& o) const;
  Tensor div(const Tensor& o) const;        // ints become f32
  Tensor floor_div(const Tensor& o) const;  // ints
  Tensor trunc_div(const Tensor& o) const;  // ints, C semantics
  Tensor floor_mod(const Tensor& o) const;  // ints: sign of the divisor; floats: x - floor(x/y)*y
  Tensor trunc_mod(const Tensor& o) const;  // sign of the dividend
  Tensor pow(const Tensor& o) const;
  Tensor pow(Scalar exponent) const;
  Tensor maximum(const Tensor& o) const;  // NaN in *this survives
  Tensor minimum(const Tensor& o) const;
  Tensor bit_and(const Tensor& o) const;
  Tensor bit_or(const Tensor& o) const;
  Tensor bit_xor(const Tensor& o) const;
  Tensor shl(const Tensor& o) const;
  Tensor shr(const Tensor& o) const;
  Tensor lt(const Tensor& o) const;
  Tensor le(const Tensor& o) const;
  Tensor gt(const Tensor& o) const { return o.lt(*this); }
  Tensor ge(const Tensor& o) const { return o.le(*this); }
  Tensor eq(const Tensor& o) const;
  Tensor ne(const Tensor& o) const;
  // *this is the condition; non-bools count as "not zero".
  Tensor where(const Tensor& yes, const Tensor& no) const;

  // A weak literal as a Tensor of the type it takes beside *this.
  Tensor literal(Scalar v) const;
  Tensor add(Scalar v) const { return add(literal(v)); }
  Tensor sub(Scalar v) const { return sub(literal(v)); }
  Tensor mul(Scalar v) const { return mul(literal(v)); }
  Tensor div(Scalar v) const { return div(literal(v)); }
  Tensor maximum(Scalar v) const { return maximum(literal(v)); }
  Tensor minimum(Scalar v) const { return minimum(literal(v)); }
  Tensor lt(Scalar v) const { return lt(literal(v)); }
  Tensor le(Scalar v) const { return le(literal(v)); }
  Tensor gt(Scalar v) const { return gt(literal(v)); }
  Tensor ge(Scalar v) const { return ge(literal(v)); }
  Tensor eq(Scalar v) const { return eq(literal(v)); }
  Tensor ne(Scalar v) const { return ne(literal(v)); }
  Tensor clamp(Scalar low, Scalar high) const { return maximum(low).minimum(high); }

  // ---- movement (movement.cc) ----
  Tensor reshape(const Dims& dims) const;        // one -1 is inferred
  Tensor permute(const Dims& order) const;       // negative axes count from the back
  Tensor transpose(int64_t a, int64_t b) const;  // swaps two axes
  Tensor flip(const Dims& axes) const;
  Tensor expand(const Dims& dims) const;  // right-aligned broadcast; -1 keeps an axis
  Tensor pad(const Dims& before, const Dims& after, Scalar value = 0) const;
  Tensor shrink(const Dims& starts, const Dims& lengths) const;
  Tensor slice(std::span<const Slice> axes) const;  // missing trailing axes are whole
  Tensor slice(std::initializer_list<Slice> axes) const {
    return slice(std::span<const Slice>(axes.begin(), axes.size()));
  }
  Tensor slice_axis(int64_t axis, Slice s) const;
  Tensor squeeze(const Dims& axes = {}) const;  // no axes: all of size 1
  Tensor unsqueeze(const Dims& axes) const;     // positions in the result
  Tensor flatten(int64_t from = 0, int64_t to = -1) const;
  Tensor repeat(const Dims& times) const;             // tiles; as many numbers as axes
  Tensor repeat_each(int64_t axis, int64_t n) const;  // aab b: every element n times
  std::vector<Tensor> split(const Dims& sizes, int64_t axis) const;

  // ---- reduce (reduce.cc). No axes = all. Axes of size 1 cost nothing. ----
  // f16/bf16 accumulate in f32 and come back; small ints give sum_dtype.
  Tensor sum(const Dims& axes = {}, bool keep = false) const;
  Tensor prod(const Dims& axes = {}, bool keep = false) const;
  Tensor max(const Dims& axes = {}, bool keep = false) const;
  Tensor min(const Dims& axes = {}, bool keep = false) const;
  Tensor mean(const Dims& axes = {}, bool keep = false) const;  // ints give f32
  Tensor var(const Dims& axes = {}, bool keep = false, int64_t correction = 1) const;
  Tensor argmax(int64_t axis, bool keep = false, bool last = false) const;  // i32
  Tensor cumsum(int64_t axis) const;
  // (..., m, k) x (..., k, n), 1-d operands as numpy. f16 products and sums are f32, rounded once.
  Tensor matmul(const Tensor& o) const;

  // ---- memory ----
  Tensor contiguous() const;  // asks for memory here

 private:
  ir::Graph* graph_ = nullptr;
  const ir::Node* node_ = nullptr;
};

inline Tensor operator+(const Tensor& a, const Tensor& b) {
  return a.add(b);
}
inline Tensor operator-(const Tensor& a, const Tensor& b) {
  return a.sub(b);
}
inline Tensor operator*(const Tensor& a, const Tensor& b) {
  return a.mul(b);
}
inline Tensor operator/(const Tensor& a, const Tensor& b) {
  return a.div(b);
}
inline Tensor operator-(const Tensor& a) {
  return a.neg();
}
inline Tensor operator+(const Tensor& a, Scalar b) {
  return a.add(b);
}
inline Tensor operator-(const Tensor& a, Scalar b) {
  return a.sub(b);
}
inline Tensor operator*(const Tensor& a, Scalar b) {
  return a.mul(b);
}
inline Tensor operator/(const Tensor& a, Scalar b) {
  return a.div(b);
}
inline Tensor operator+(Scalar a, const Tensor& b) {
  return b.literal(a).add(b);
}
inline Tensor operator-(Scalar a, const Tensor& b) {
  return b.literal(a).sub(b);
}
inline Tensor operator*(Scalar a, const Tensor& b) {
  return b.literal(a).mul(b);
}
inline Tensor operator/(Scalar a, const Tensor& b) {
  return b.literal(a).div(b);
}

Tensor concat(std::span<const Tensor> parts,
              int64_t axis);  // at least one part; dtypes are promoted
Tensor stack(std::span<const Tensor> parts, int64_t axis);  // equal dims

// Data at integer indices along one axis (ONNX Gather): dims = x[:axis] + index dims + x[axis+1:].
// Negative indices count from the back; anything else out of range is clamped, so memory is never
// left.
Tensor gather(const Tensor& x, const Tensor& index, int64_t axis);
// ONNX GatherElements: result has the index's dims.
Tensor gather_elements(const Tensor& x, const Tensor& index, int64_t axis);
// Elements of x (flattened) at flat positions; positions are clamped. x gets memory unless it is a
// buffer.
Tensor gather_flat(const Tensor& x, const Tensor& position);

// The state of dst's buffer after x was written to dst (a buffer, a state of one, or a view of
// those): AFTER(state, STORE(dst, x)). x is broadcast to dst; dtype must agree (weak values adapt)
// and so must the device. The result has the dims of the whole buffer tensor, not of the view.
// Writing a value to itself gives the old state.
Tensor assign(const Tensor& dst, const Tensor& x);

// Dims both broadcast to; latches an error naming `what` if there are none.
Dims broadcast_dims(ir::Graph& g, const Dims& a, const Dims& b, const char* what);
std::string dims_text(std::span<const int64_t> dims);  // "1x3x320", "scalar"
int64_t product(std::span<const int64_t> dims);        // saturates at INT64_MAX

}  // namespace modeld::tensor
