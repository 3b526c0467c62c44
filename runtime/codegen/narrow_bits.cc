#include <bit>
#include <cmath>

#include "runtime/codegen/decompositions.h"
#include "runtime/ir/narrow_float.h"

namespace modeld::codegen {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::Op;

namespace {

struct Bits {
  Graph& g;
  const Node* k(int64_t v) const { return ir::const_int(g, v, DType::kU32); }
  const Node* op(Op o, const Node* a, const Node* b) const { return ir::alu(g, o, {a, b}); }
  const Node* cast(const Node* n, DType t) const { return g.make(Op::kCast, t, {n}); }
  const Node* as(const Node* n, DType t) const { return g.make(Op::kBitCast, t, {n}); }
  const Node* pick(const Node* c, const Node* a, const Node* b) const {
    return ir::where(g, c, a, b);
  }
};

// Scaling by 2^112 moves the exponent and makes subnormal halves normal in one exact multiply.
const Node* widen_f16(const Bits& m, const Node* bits) {
  const Node* magnitude = m.op(Op::kShl, m.op(Op::kAnd, bits, m.k(0x7fff)), m.k(13));
  const Node* scaled =
      ir::mul(m.g, m.as(magnitude, DType::kF32), ir::const_of(m.g, DType::kF32, 0x1p112));
  // Infinity and NaN keep their mantissa.
  const Node* special = m.op(Op::kOr, magnitude, m.k(0x7f800000));
  const Node* finite = ir::lt(m.g, magnitude, m.k(0x0f800000));
  const Node* value = m.pick(finite, m.as(scaled, DType::kU32), special);
  const Node* sign = m.op(Op::kShl, m.op(Op::kAnd, bits, m.k(0x8000)), m.k(16));
  return m.as(m.op(Op::kOr, value, sign), DType::kF32);
}

const Node* narrow_f16(const Bits& m, const Node* bits) {
  const Node* a = m.op(Op::kAnd, bits, m.k(0x7fffffff));
  // Rebias, round to nearest even on the 13 bits that go.
  const Node* odd = m.op(Op::kAnd, m.op(Op::kShr, a, m.k(13)), m.k(1));
  const Node* biased = m.op(Op::kAdd, m.op(Op::kSub, a, m.k(0x38000000 - 0xfff)), odd);
  const Node* normal = m.op(Op::kShr, biased, m.k(13));
  // Adding 0.5 lines a subnormal result up with the low bits of the float's mantissa.
  const Node* lined_up = ir::add(m.g, m.as(a, DType::kF32), ir::const_of(m.g, DType::kF32, 0.5));
  const Node* subnormal = m.op(Op::kSub, m.as(lined_up, DType::kU32), m.k(0x3f000000));
  const Node* small = m.pick(ir::lt(m.g, a, m.k(0x38800000)), subnormal, normal);
  // From 65520 on rounding reaches infinity; above infinity stands NaN.
  const Node* large = m.pick(ir::lt(m.g, m.k(0x7f800000), a), m.k(0x7e00), m.k(0x7c00));
  const Node* value = m.pick(ir::lt(m.g, a, m.k(0x477ff000)), small, large);
  return m.op(Op::kOr, value, m.op(Op::kAnd, m.op(Op::kShr, bits, m.k(16)), m.k(0x8000)));
}

const Node* narrow_bf16(const Bits& m, const Node* bits) {
  const Node* odd = m.op(Op::kAnd, m.op(Op::kShr, bits, m.k(16)), m.k(1));
  const Node* rounded =
      m.op(Op::kShr, m.op(Op::kAdd, m.op(Op::kAdd, bits, m.k(0x7fff)), odd), m.k(16));
  const Node* magnitude = m.op(Op::kAnd, bits, m.k(0x7fffffff));
  const Node* quiet = m.op(Op::kOr, m.op(Op::kShr, bits, m.k(16)), m.k(0x40));
  return m.pick(ir::lt(m.g, m.k(0x7f800000), magnitude), quiet, rounded);
}

// 2^exponent, exact.
const Node* power(const Bits& m, int exponent) {
  return ir::const_of(m.g, DType::kF32, std::ldexp(1.0, exponent));
}

// What a NaN or infinity of these bits is; null where they mean a number.
const Node* special_f8(const Bits& m, const ir::Float8& f, const Node* bits, const Node* value) {
  const Node* nan = m.k(0x7fc00000);
  if (f.is_unsigned_zero)
    return m.pick(ir::alu(m.g, Op::kCmpEq, {bits, m.k(f.nan_bits)}), nan, value);
  const Node* low = m.op(Op::kAnd, bits, m.k(0x7f));
  const Node* beyond = nan;
  if (f.has_infinity) beyond = m.pick(ir::lt(m.g, m.k(f.max_bits + 1), low), nan, m.k(0x7f800000));
  return m.pick(ir::lt(m.g, m.k(f.max_bits), low), beyond, value);
}

// Denormals are counted, not scaled: no device has to know small floats for it.
const Node* widen_f8(const Bits& m, const ir::Float8& f, const Node* bits) {
  const Node* low = m.op(Op::kAnd, bits, m.k(0x7f));
  const Node* aligned = m.op(Op::kShl, low, m.k(23 - f.mantissa_bits));
  const Node* normal = m.op(Op::kAdd, aligned, m.k((127 - f.bias) << 23));
  const Node* counted =
      ir::mul(m.g, m.cast(low, DType::kF32), power(m, 1 - f.bias - f.mantissa_bits));
  const Node* is_small = ir::lt(m.g, low, m.k(1 << f.mantissa_bits));
  const Node* value = special_f8(m, f, bits, m.pick(is_small, m.as(counted, DType::kU32), normal));
  const Node* sign = m.op(Op::kShl, m.op(Op::kAnd, bits, m.k(0x80)), m.k(24));
  return m.as(m.op(Op::kOr, value, sign), DType::kF32);
}

const Node* narrow_f8(const Bits& m, const ir::Float8& f, DType to, const Node* bits) {
  const int gone = 23 - f.mantissa_bits;
  const auto bits_of = [](float v) { return static_cast<int64_t>(std::bit_cast<uint32_t>(v)); };
  const Node* exact = m.op(Op::kAnd, bits, m.k(0x7fffffff));
  const Node* top = m.k(bits_of(ir::from_narrow_bits(to, f.max_bits)));
  const Node* a = m.pick(ir::lt(m.g, top, exact), top, exact);
  const Node* odd = m.op(Op::kAnd, m.op(Op::kShr, a, m.k(gone)), m.k(1));
  const Node* rebased = m.op(Op::kSub, a, m.k(((127 - f.bias) << 23) - ((1 << (gone - 1)) - 1)));
  const Node* normal = m.op(Op::kShr, m.op(Op::kAdd, rebased, odd), m.k(gone));
  // Added to a power of two whose last place is theirs, small values leave their count in its
  // mantissa, rounded to nearest even.
  const float line = std::ldexp(1.0F, 1 - f.bias - f.mantissa_bits + 23);
  const Node* lined_up =
      ir::add(m.g, m.as(a, DType::kF32), ir::const_of(m.g, DType::kF32, static_cast<double>(line)));
  const Node* counted = m.op(Op::kSub, m.as(lined_up, DType::kU32), m.k(bits_of(line)));
  const Node* is_small = ir::lt(m.g, a, m.k(bits_of(std::ldexp(1.0F, 1 - f.bias))));
  const Node* low = m.pick(is_small, counted, normal);
  const Node* sign = m.op(Op::kAnd, m.op(Op::kShr, bits, m.k(24)), m.k(0x80));
  const Node* is_nan = ir::lt(m.g, m.k(0x7f800000), exact);
  if (!f.is_unsigned_zero) return m.op(Op::kOr, m.pick(is_nan, m.k(f.nan_bits), low), sign);
  const Node* is_zero = ir::alu(m.g, Op::kCmpEq, {low, m.k(0)});
  return m.pick(is_nan, m.k(f.nan_bits), m.pick(is_zero, low, m.op(Op::kOr, low, sign)));
}

}  // namespace

const Node* widen_narrow(Graph& g, const Node* n) {
  const Bits m{g};
  if (const ir::Float8* f = ir::float8_format(n->dtype))
    return widen_f8(m, *f, m.cast(m.as(n, DType::kU8), DType::kU32));
  const Node* bits = m.cast(m.as(n, DType::kU16), DType::kU32);
  if (n->dtype == DType::kF16) return widen_f16(m, bits);
  return m.as(m.op(Op::kShl, bits, m.k(16)), DType::kF32);
}

const Node* narrowed_to(Graph& g, const Node* f32, DType to) {
  const Bits m{g};
  const Node* bits = m.as(f32, DType::kU32);
  if (const ir::Float8* f = ir::float8_format(to))
    return m.as(m.cast(narrow_f8(m, *f, to, bits), DType::kU8), to);
  const Node* half = to == DType::kF16 ? narrow_f16(m, bits) : narrow_bf16(m, bits);
  return m.as(m.cast(half, DType::kU16), to);
}

}  // namespace modeld::codegen
