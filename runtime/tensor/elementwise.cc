// Elementwise methods that are one or two primitive ops; functions with a formula are in math.cc.
#include "runtime/tensor/internal.h"
#include "runtime/tensor/tensor.h"

namespace modeld::tensor {
namespace {

using ir::Op;

bool both_fine(const Tensor& a, const Tensor& b) {
  CHECK(a.valid() && b.valid());
  CHECK(&a.graph() == &b.graph());
  return !a.graph().failed();
}

// Promotes and broadcasts; the node type is the IR's business.
Tensor binary(Op op, const Tensor& a, const Tensor& b) {
  ir::Graph& g = a.graph();
  if (!both_fine(a, b)) return placeholder(g);
  broadcast_dims(g, a.dims(), b.dims(), ir::op_name(op));
  if (g.failed()) return placeholder(g);
  const DType t = promoted(a.dtype(), b.dtype());
  return {g, ir::alu(g, op, {a.cast(t).node(), b.cast(t).node()})};
}

Tensor int_binary(Op op, const Tensor& a, const Tensor& b, bool allow_bool) {
  ir::Graph& g = a.graph();
  if (!both_fine(a, b)) return placeholder(g);
  const DType t = promoted(a.dtype(), b.dtype());
  if (!ir::is_int(t) && !(allow_bool && t == DType::kBool)) {
    return bad(g, strf("%s: operands are %s and %s, integers are needed", ir::op_name(op),
                       ir::dtype_name(a.dtype()), ir::dtype_name(b.dtype())));
  }
  return binary(op, a, b);
}

// Unary ops on floats; ints become f32, half types go through f32.
Tensor float_unary(Op op, const Tensor& x) {
  if (broken(x)) return placeholder(x.graph());
  const DType t = x.dtype();
  if (!ir::is_float(t))
    return float_unary(op, x.cast(t == DType::kWeakInt ? DType::kWeakFloat : DType::kF32));
  const Tensor wide = x.cast(compute_dtype(t));
  return Tensor(x.graph(), ir::alu(x.graph(), op, {wide.node()})).cast(t);
}

Tensor to_bool(const Tensor& x) {
  return x.dtype() == DType::kBool ? x : x.ne(0);
}

}  // namespace

Tensor Tensor::literal(Scalar v) const {
  if (broken(*this)) return placeholder(*graph_);
  const DType t = dtype();
  if (v.is_float) return constant(*graph_, v, ir::is_float(t) ? t : DType::kWeakFloat);
  return constant(*graph_, v, t == DType::kBool ? DType::kWeakInt : t);
}

Tensor Tensor::cast(DType t) const {
  if (broken(*this) || dtype() == t) return *this;
  if (t == DType::kVoid) return bad(*graph_, "cast: to void");
  if (t == DType::kBool) return ne(0);
  return {*graph_, ir::cast(*graph_, node_, t)};
}

Tensor Tensor::bitcast(DType t) const {
  if (broken(*this) || dtype() == t) return *this;
  if (ir::is_weak(t) || ir::is_weak(dtype()) || t == DType::kVoid)
    return bad(*graph_, "bitcast: needs types with a width");
  const int from = ir::item_size(dtype());
  const int to = ir::item_size(t);
  const Dims d = dims();
  if (from != to && (d.empty() || d.back() * from % to != 0)) {
    return bad(*graph_, strf("bitcast: last axis of %s in %s is not a whole number of %s",
                             dims_text(d).c_str(), ir::dtype_name(dtype()), ir::dtype_name(t)));
  }
  return {*graph_, graph_->make(Op::kBitCast, t, {node_})};
}

Tensor Tensor::neg() const {
  return dtype() == DType::kBool ? logical_not() : mul(-1);
}
Tensor Tensor::abs() const {
  return ir::is_unsigned(dtype()) ? *this : lt(0).where(neg(), *this);
}
// NaN stays NaN, zero stays zero.
Tensor Tensor::sign() const {
  const Tensor up = gt(0).where(literal(1), *this);
  return ir::is_unsigned(dtype()) ? up : lt(0).where(literal(-1), up);
}

Tensor Tensor::reciprocal() const {
  return float_unary(Op::kReciprocal, *this);
}
Tensor Tensor::sqrt() const {
  return float_unary(Op::kSqrt, *this);
}
Tensor Tensor::exp2() const {
  return float_unary(Op::kExp2, *this);
}
Tensor Tensor::log2() const {
  return float_unary(Op::kLog2, *this);
}
Tensor Tensor::sin() const {
  return float_unary(Op::kSin, *this);
}
Tensor Tensor::trunc() const {
  return broken(*this) || !ir::is_float(dtype())
             ? *this
             : Tensor(*graph_, ir::alu(*graph_, Op::kTrunc, {node_}));
}

Tensor Tensor::logical_not() const {
  const Tensor b = to_bool(*this);
  return broken(b) ? b : Tensor(*graph_, ir::logical_not(*graph_, b.node()));
}

Tensor Tensor::add(const Tensor& o) const {
  return binary(Op::kAdd, *this, o);
}
Tensor Tensor::mul(const Tensor& o) const {
  return binary(Op::kMul, *this, o);
}

// a + b*-1: late passes turn it back into a subtraction, and sums simplify.
Tensor Tensor::sub(const Tensor& o) const {
  if (!both_fine(*this, o)) return placeholder(*graph_);
  if (dtype() == DType::kBool && o.dtype() == DType::kBool)
    return bad(*graph_, "sub: of two bools");
  const DType t = promoted(dtype(), o.dtype());
  return add(o.cast(t).mul(-1));
}

// a * 1/b; half types divide in f32, where the reciprocal of a large number is not a subnormal.
Tensor Tensor::div(const Tensor& o) const {
  if (!both_fine(*this, o)) return placeholder(*graph_);
  DType t = promoted(dtype(), o.dtype());
  if (!ir::is_float(t)) t = DType::kF32;
  const DType wide = compute_dtype(t);
  return cast(wide).mul(o.cast(wide).reciprocal()).cast(t);
}

Tensor Tensor::floor_div(const Tensor& o) const {
  return int_binary(Op::kFloorDiv, *this, o, false);
}
Tensor Tensor::trunc_div(const Tensor& o) const {
  return int_binary(Op::kCDiv, *this, o, false);
}

Tensor Tensor::floor_mod(const Tensor& o) const {
  if (!both_fine(*this, o)) return placeholder(*graph_);
  if (!ir::is_float(promoted(dtype(), o.dtype())))
    return int_binary(Op::kFloorMod, *this, o, false);
  return sub(div(o).floor().mul(o));
}

Tensor Tensor::trunc_mod(const Tensor& o) const {
  if (!both_fine(*this, o)) return placeholder(*graph_);
  if (!ir::is_float(promoted(dtype(), o.dtype()))) return int_binary(Op::kCMod, *this, o, false);
  return sub(div(o).trunc().mul(o));
}

// MAX(a, b) is "a < b ? b : a".
Tensor Tensor::maximum(const Tensor& o) const {
  return binary(Op::kMax, *this, o);
}
Tensor Tensor::minimum(const Tensor& o) const {
  return o.lt(*this).where(o, *this);
}

Tensor Tensor::bit_and(const Tensor& o) const {
  return int_binary(Op::kAnd, *this, o, true);
}
Tensor Tensor::bit_or(const Tensor& o) const {
  return int_binary(Op::kOr, *this, o, true);
}
Tensor Tensor::bit_xor(const Tensor& o) const {
  return int_binary(Op::kXor, *this, o, true);
}
Tensor Tensor::shl(const Tensor& o) const {
  return int_binary(Op::kShl, *this, o, false);
}
Tensor Tensor::shr(const Tensor& o) const {
  return int_binary(Op::kShr, *this, o, false);
}

Tensor Tensor::lt(const Tensor& o) const {
  return binary(Op::kCmpLt, *this, o);
}
Tensor Tensor::ne(const Tensor& o) const {
  return binary(Op::kCmpNe, *this, o);
}
Tensor Tensor::eq(const Tensor& o) const {
  return ne(o).logical_not();
}
// Floats: false beside NaN, as IEEE has it.
Tensor Tensor::le(const Tensor& o) const {
  if (!both_fine(*this, o)) return placeholder(*graph_);
  if (ir::is_float(promoted(dtype(), o.dtype()))) return lt(o).bit_or(eq(o));
  return o.lt(*this).logical_not();
}

Tensor Tensor::where(const Tensor& yes, const Tensor& no) const {
  ir::Graph& g = *graph_;
  if (!both_fine(*this, yes) || !both_fine(yes, no)) return placeholder(g);
  broadcast_dims(g, dims(), broadcast_dims(g, yes.dims(), no.dims(), "where"), "where");
  if (g.failed()) return placeholder(g);
  const DType t = promoted(yes.dtype(), no.dtype());
  return {g, ir::where(g, to_bool(*this).node(), yes.cast(t).node(), no.cast(t).node())};
}

}  // namespace modeld::tensor
