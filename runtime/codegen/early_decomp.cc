// early_decomp. Needs concrete integer types. Gives: floor division and modulo as the truncating
// forms hardware has (the one conversion point), POW as exp2/log2, THREEFRY as adds and rotates.
// Before dtype_decomp, because 64-bit and float code made here must still be widened there.
#include <bit>
#include <cmath>

#include "runtime/codegen/decompositions.h"
#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::Op;

int log2_exact(const Node* n) {
  const auto v = ir::int_value(n);
  if (!v || *v <= 0 || !std::has_single_bit(static_cast<uint64_t>(*v))) return -1;
  return std::countr_zero(static_cast<uint64_t>(*v));
}

const Node* op2(Graph& g, Op op, const Node* a, const Node* b) {
  return ir::alu(g, op, {a, b});
}

// Floor differs from truncation when the remainder is not 0 and the signs differ.
const Node* rounds_down(Graph& g, const Node* r, const Node* a, const Node* b) {
  const Node* zero = ir::const_int(g, 0, a->dtype);
  const Node* signs = op2(g, Op::kCmpNe, ir::lt(g, a, zero), ir::lt(g, b, zero));
  return ir::land(g, op2(g, Op::kCmpNe, r, zero), signs);
}

const Node* floor_div(Graph& g, const Node* n) {
  const Node* a = n->src(0);
  const Node* b = n->src(1);
  if (const int k = log2_exact(b); k >= 0) {
    return op2(g, Op::kShr, a, ir::const_int(g, k, a->dtype));
  }
  const ir::Bounds x = ir::bounds(g, a);
  const ir::Bounds d = ir::bounds(g, b);
  const Node* q = op2(g, Op::kCDiv, a, b);
  const bool same_sign = (x.vmin >= 0 && d.vmin > 0) || (x.vmax <= 0 && d.vmax < 0);
  if (same_sign || ir::is_unsigned(n->dtype)) return q;
  const Node* down = rounds_down(g, op2(g, Op::kCMod, a, b), a, b);
  return op2(g, Op::kSub, q, ir::cast(g, down, n->dtype));
}

const Node* floor_mod(Graph& g, const Node* n) {
  const Node* a = n->src(0);
  const Node* b = n->src(1);
  if (const int k = log2_exact(b); k >= 0) {
    return op2(g, Op::kAnd, a, ir::const_int(g, *ir::int_value(b) - 1, a->dtype));
  }
  const ir::Bounds x = ir::bounds(g, a);
  const ir::Bounds d = ir::bounds(g, b);
  const Node* r = op2(g, Op::kCMod, a, b);
  const bool same_sign = (x.vmin >= 0 && d.vmin > 0) || (x.vmax <= 0 && d.vmax < 0);
  if (same_sign || ir::is_unsigned(n->dtype)) return r;
  const Node* zero = ir::const_int(g, 0, a->dtype);
  return ir::add(g, r, ir::where(g, rounds_down(g, r, a, b), b, zero));
}

// b ^ e for a constant whole exponent, by squaring; null if it does not apply.
const Node* pow_by_squaring(Graph& g, const Node* base, double e) {
  const double whole = std::floor(std::fabs(e));
  const bool half = std::fabs(e) - whole == 0.5;
  if ((!half && whole != std::fabs(e)) || whole > 64) return nullptr;
  const Node* out = half ? g.make(Op::kSqrt, base->dtype, {base}) : ir::const_of(g, base->dtype, 1);
  const Node* power = base;
  for (auto bits = static_cast<uint64_t>(whole); bits != 0; bits >>= 1) {
    if (bits & 1) out = ir::num_value(out) == 1.0 ? power : ir::mul(g, out, power);
    if (bits > 1) power = ir::mul(g, power, power);
  }
  return e < 0 ? g.make(Op::kReciprocal, base->dtype, {out}) : out;
}

// exp2(e * log2|b|) with the sign of an odd whole exponent; NaN for a negative base and a fraction.
const Node* pow_general(Graph& g, const Node* b, const Node* e) {
  const ir::DType t = b->dtype;
  const auto c = [&](double v) { return ir::const_of(g, t, v); };
  const Node* negative = ir::lt(g, b, c(0));
  const Node* magnitude = ir::where(g, negative, ir::mul(g, b, c(-1)), b);
  const Node* raised = g.make(Op::kExp2, t, {ir::mul(g, e, g.make(Op::kLog2, t, {magnitude}))});
  const Node* fraction = op2(g, Op::kCmpNe, g.make(Op::kTrunc, t, {e}), e);
  const Node* half = ir::mul(g, e, c(0.5));
  const Node* odd = op2(g, Op::kCmpNe, g.make(Op::kTrunc, t, {half}), half);
  const Node* signed_value = ir::where(g, odd, ir::mul(g, raised, c(-1)), raised);
  const Node* for_negative = ir::where(g, fraction, c(std::nan("")), signed_value);
  const Node* value = ir::where(g, negative, for_negative, raised);
  return ir::where(g, op2(g, Op::kCmpEq, e, c(0)), c(1), value);
}

// b ^ e modulo the type's range for any whole e, one bit of e at a time. A negative power of
// anything but 1 and -1 is a fraction: 0.
const Node* whole_pow(Graph& g, const Node* b, const Node* e) {
  const ir::DType t = b->dtype;
  const auto k = [&](int64_t v) { return ir::const_int(g, v, t); };
  const Node* out = k(1);
  const Node* power = b;
  for (int bit = 0; bit < ir::item_bits(t); ++bit) {
    const Node* shifted = bit == 0 ? e : op2(g, Op::kShr, e, k(bit));
    const Node* is_set = op2(g, Op::kCmpNe, op2(g, Op::kAnd, shifted, k(1)), k(0));
    out = ir::where(g, is_set, ir::mul(g, out, power), out);
    power = ir::mul(g, power, power);
  }
  if (ir::is_unsigned(t)) return out;
  const Node* is_odd = op2(g, Op::kCmpNe, op2(g, Op::kAnd, e, k(1)), k(0));
  const Node* of_minus_one = ir::where(g, is_odd, k(-1), k(1));
  const Node* fraction = ir::where(g, op2(g, Op::kCmpEq, b, k(-1)), of_minus_one, k(0));
  const Node* inverse = ir::where(g, op2(g, Op::kCmpEq, b, k(1)), k(1), fraction);
  return ir::where(g, ir::lt(g, e, k(0)), inverse, out);
}

const Node* pow(Graph& g, const Node* n) {
  const Node* b = n->src(0);
  const Node* e = n->src(1);
  if (!ir::is_float(n->dtype)) return whole_pow(g, b, e);
  if (const auto v = ir::num_value(e)) {
    if (const Node* out = pow_by_squaring(g, b, *v)) return out;
  }
  if (n->dtype == ir::DType::kF64) return pow_general(g, b, e);
  // In f64: e * log2|b| must keep its fraction, however large it is.
  const auto wide = [&](const Node* x) { return ir::cast(g, x, ir::DType::kF64); };
  return ir::cast(g, pow_general(g, wide(b), wide(e)), n->dtype);
}

}  // namespace

const Node* early_decomp(Graph& g, const Node* root, const CodegenOptions&) {
  static const ir::RuleSet rules = [] {
    ir::RuleSet r;
    r.on({Op::kFloorDiv}, "floor_div", floor_div);
    r.on({Op::kFloorMod}, "floor_mod", floor_mod);
    r.on({Op::kPow}, "pow", pow);
    r.on({Op::kThreefry}, "threefry", decompose_threefry);
    return r;
  }();
  return ir::rewrite(g, root, rules);
}

}  // namespace modeld::codegen
