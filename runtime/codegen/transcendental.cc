// Polynomials below: relative minimax fits (Remez exchange, 400-bit arithmetic) over the reduced
// range; recompute them with any Remez program from the function, range and degree in the comment.
#include <cmath>
#include <initializer_list>
#include <limits>

#include "runtime/codegen/decompositions.h"

namespace modeld::codegen {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::Op;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Arithmetic in one float type, spelled shortly.
struct Math {
  Graph& g;
  DType t;

  const Node* c(double v) const { return ir::const_of(g, t, v); }
  const Node* add(const Node* a, const Node* b) const { return ir::add(g, a, b); }
  const Node* sub(const Node* a, const Node* b) const { return ir::alu(g, Op::kSub, {a, b}); }
  const Node* mul(const Node* a, const Node* b) const { return ir::mul(g, a, b); }
  const Node* div(const Node* a, const Node* b) const { return ir::alu(g, Op::kFDiv, {a, b}); }
  const Node* lt(const Node* a, const Node* b) const { return ir::lt(g, a, b); }
  const Node* pick(const Node* cond, const Node* a, const Node* b) const {
    return ir::where(g, cond, a, b);
  }
  const Node* neg(const Node* a) const { return g.make(Op::kNeg, a->dtype, {a}); }
  const Node* to(const Node* a, DType type) const { return ir::cast(g, a, type); }
  const Node* bits(const Node* a, DType type) const { return g.make(Op::kBitCast, type, {a}); }
  const Node* is_nan(const Node* a) const { return ir::alu(g, Op::kCmpNe, {a, a}); }
  // Highest power first.
  const Node* poly(const Node* x, std::initializer_list<double> coefficients) const {
    const Node* out = nullptr;
    for (double k : coefficients) out = out == nullptr ? c(k) : add(mul(out, x), c(k));
    return out;
  }
};

DType bits_type(DType t) {
  return t == DType::kF64 ? DType::kI64 : DType::kI32;
}
int mantissa_bits(DType t) {
  return t == DType::kF64 ? 52 : 23;
}
int64_t exponent_bias(DType t) {
  return t == DType::kF64 ? 1023 : 127;
}

// 2^n for a whole n in the normal range.
const Node* power_of_two(const Math& m, const Node* n) {
  const DType i = n->dtype;
  const Node* biased = ir::add(m.g, n, ir::const_int(m.g, exponent_bias(m.t), i));
  return m.bits(ir::alu(m.g, Op::kShl, {biased, ir::const_int(m.g, mantissa_bits(m.t), i)}), m.t);
}

const Node* absolute(const Math& m, const Node* x) {
  return m.pick(m.lt(x, m.c(0)), m.neg(x), x);
}

}  // namespace

// 2^x = 2^q * 2^s, q whole, s in [-1/2, 1/2]; for f32 in [-0.415, 0.585], which keeps |2^s - 1|
// below 1/2 and so its rounding half a unit smaller: within 1 ULP without a fused multiply-add. The
// scale is applied in two halves so that subnormal results and the last binade round once.
const Node* decompose_exp2(Graph& g, const Node* n) {
  const Math m{g, n->dtype};
  const bool f64 = m.t == DType::kF64;
  const double top = f64 ? 1024 : 128;
  const double bottom = f64 ? -1080 : -151;
  const Node* x = n->src(0);
  // NaN takes the first bound here, so that the conversion below is always defined.
  const Node* below = m.pick(m.lt(x, m.c(top)), x, m.c(top));
  const Node* at = m.pick(m.lt(below, m.c(bottom)), m.c(bottom), below);
  const Node* half = m.pick(m.lt(at, m.c(0)), m.c(f64 ? -0.5 : -0.585), m.c(f64 ? 0.5 : 0.415));
  const Node* q = m.to(m.add(at, half), bits_type(m.t));
  const Node* s = m.sub(at, m.to(q, m.t));
  // exp2 on these, degree 11: 3.1e-18; degree 6 with ln2 as f32 has it: 2.7e-9.
  const Node* p =
      f64 ? m.poly(s,
                   {4.4352929034730457691e-10, 7.0741055924699492659e-9, 1.0178197955095713638e-7,
                    1.3215433089825768359e-6, 0.000015252733490145735683, 0.00015403530462514098475,
                    0.0013333558146789758659, 0.0096181291075883355082, 0.055504108664819922315,
                    0.24022650695910156204, 0.69314718055994533045, 0.9999999999999999971})
          : m.poly(s, {0.00016248320405119073503, 0.0013377147954820669835, 0.009616158778786113373,
                       0.05550377113870269552, 0.2402266021787834438, 0.693147180559945309, 1.0});
  const Node* low = ir::alu(g, Op::kShr, {q, ir::const_int(g, 1, q->dtype)});
  const Node* high = ir::alu(g, Op::kSub, {q, low});
  const Node* y = m.mul(m.mul(p, power_of_two(m, low)), power_of_two(m, high));
  const Node* capped = m.pick(m.lt(x, m.c(top)), y, m.c(kInf));
  const Node* floored = m.pick(m.lt(x, m.c(bottom)), m.c(0), capped);
  return m.pick(m.is_nan(x), x, floored);
}

// x = 2^e * (1 + f), 1 + f in [2/3, 4/3); t = f / (2 + f); log2(1 + f) = t * (2/ln2 + t^2 *
// Q(t^2)).
const Node* decompose_log2(Graph& g, const Node* n) {
  if (n->dtype != DType::kF64) {
    // In f64: a quotient rounded to f32 alone would cost more than an ULP.
    const Node* wide = g.make(Op::kLog2, DType::kF64, {ir::cast(g, n->src(0), DType::kF64)});
    return ir::cast(g, wide, n->dtype);
  }
  const Math m{g, DType::kF64};
  const DType i = DType::kI64;
  const int mantissa = mantissa_bits(m.t);
  const Node* x = n->src(0);
  const Node* tiny = m.lt(x, m.c(0x1p-1022));
  const Node* raw = m.bits(m.pick(tiny, m.mul(x, m.c(0x1p64)), x), i);
  const auto k = [&](int64_t v) { return ir::const_int(g, v, i); };
  // Bits of 2/3: subtracting them makes the exponent step there and not at 1.
  const Node* above = ir::alu(g, Op::kSub, {raw, k(0x3fe5555555555555)});
  const Node* e = ir::alu(g, Op::kShr, {above, k(mantissa)});
  const Node* exponent = ir::alu(g, Op::kShl, {e, k(mantissa)});
  const Node* f = m.sub(m.bits(ir::alu(g, Op::kSub, {raw, exponent}), m.t), m.c(1));
  const Node* t = m.div(f, m.add(f, m.c(2)));
  const Node* u = m.mul(t, t);
  // (2/ln2 * atanh(t)/t - 2/ln2) / u on u in [0, 1/25], degree 8: 3.4e-19.
  const Node* q =
      m.poly(u, {0.17916317518715927171, 0.16761489052776720201, 0.19244619876274407122,
                 0.22195101647199685558, 0.26230821804584643067, 0.32059889775041595742,
                 0.41219858311201136761, 0.57707801635558404157, 0.96179669392597560523});
  // 2/ln2 in two parts: the second keeps the result within an ULP near 1.
  const Node* tail = m.add(m.mul(u, q), m.c(0x1.777d0ffda0d24p-55));
  const Node* fraction = m.add(m.mul(t, m.c(0x1.71547652b82fep+1)), m.mul(t, tail));
  const Node* y = m.add(m.add(m.to(e, m.t), m.pick(tiny, m.c(-64), m.c(0))), fraction);
  const Node* finite = m.pick(m.lt(x, m.c(kInf)), y, m.c(kInf));
  const Node* positive = m.pick(m.lt(x, m.c(0)), m.c(std::nan("")), finite);
  const Node* nonzero = m.pick(ir::alu(g, Op::kCmpEq, {x, m.c(0)}), m.c(-kInf), positive);
  return m.pick(m.is_nan(x), x, nonzero);
}

namespace {

struct Reduced {
  const Node* quadrant;   // i32; only the low two bits count
  const Node* remainder;  // f64 in [-pi/4, pi/4]
};

// x - q * pi/2 with pi/2 in three 33-bit parts and a rest: exact products while q < 2^20.
Reduced reduce_small(const Math& m, const Node* x) {
  const Node* q = m.to(m.add(m.mul(x, m.c(0x1.45f306dc9c883p-1)), m.c(0.5)), DType::kI32);
  const Node* f = m.to(q, m.t);
  const Node* r = x;
  for (double part : {0x1.921fb54400000p+0, 0x1.0b4611a600000p-34, 0x1.3198a2e000000p-69,
                      0x1.b839a252049c1p-104}) {
    r = m.sub(r, m.mul(f, m.c(part)));
  }
  return {q, r};
}

// 2/pi in 32-bit words, a zero word in front.
constexpr int64_t kTwoOverPi[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                  0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};

// |x| >= 2^20 given as f32: mantissa times the 96 bits of 2/pi whose product is below 4, the rest
// of the bits are whole turns (Payne and Hanek's method).
Reduced reduce_large(const Math& m, const Node* x_f32) {
  Graph& g = m.g;
  const DType u = DType::kU64;
  const auto k = [&](int64_t v) { return ir::const_int(g, v, u); };
  const auto op = [&](Op o, const Node* a, const Node* b) { return ir::alu(g, o, {a, b}); };
  const Node* raw = ir::cast(g, m.bits(x_f32, DType::kU32), u);
  const Node* mantissa = op(Op::kOr, op(Op::kAnd, raw, k(0x7fffff)), k(0x800000));
  // x = mantissa * 2^E, E = exponent - 150; bits of 2/pi to skip, the zero word included: E + 30.
  const Node* exponent = op(Op::kAnd, op(Op::kShr, raw, k(23)), k(0xff));
  const Node* skip = op(Op::kAnd, op(Op::kSub, exponent, k(120)), k(0xff));
  const Node* first = op(Op::kShr, skip, k(5));
  const Node* shift = op(Op::kAnd, skip, k(31));
  const auto word = [&](size_t offset) {
    const Node* out = k(kTwoOverPi[offset]);
    for (size_t i = 1; i < 5; ++i) {
      const Node* hit = op(Op::kCmpEq, first, k(static_cast<int64_t>(i)));
      out = ir::where(g, hit, k(kTwoOverPi[i + offset]), out);
    }
    return out;
  };
  const Node* high = op(Op::kOr, op(Op::kShl, word(0), k(32)), word(1));
  const Node* low = op(Op::kOr, op(Op::kShl, word(2), k(32)), word(3));
  // (low >> 1) >> (63 - shift) is low >> (64 - shift) without a shift by 64.
  const Node* carried = op(Op::kShr, op(Op::kShr, low, k(1)), op(Op::kSub, k(63), shift));
  const Node* a = op(Op::kOr, op(Op::kShl, high, shift), carried);
  const Node* b = op(Op::kShr, op(Op::kShl, low, shift), k(32));
  const Node* p =
      op(Op::kAdd, op(Op::kMul, mantissa, a), op(Op::kShr, op(Op::kMul, mantissa, b), k(32)));
  const Node* quadrant = op(Op::kShr, op(Op::kAdd, p, k(int64_t{1} << 61)), k(62));
  const Node* rest = op(Op::kSub, p, op(Op::kShl, quadrant, k(62)));
  const Node* turns = m.to(ir::cast(g, rest, DType::kI64), DType::kF64);
  return {ir::cast(g, quadrant, DType::kI32), m.mul(turns, m.c(0x1.921fb54442d18p-62))};
}

Reduced reduce_large_f64(const Math& m, const Node* a) {
  const QuarterTurns turns = reduce_huge(m.g, a);
  // pi/2 in two parts: the second, and the tail, keep the remainder within a unit.
  const Node* small = m.add(m.mul(turns.fraction, m.c(0x1.1a62633145c07p-54)),
                            m.mul(turns.tail, m.c(0x1.921fb54442d18p+0)));
  return {turns.quadrant, m.add(m.mul(turns.fraction, m.c(0x1.921fb54442d18p+0)), small)};
}

}  // namespace

const Node* decompose_sin(Graph& g, const Node* n) {
  const Math m{g, DType::kF64};
  const Node* x = ir::cast(g, n->src(0), DType::kF64);
  const Node* a = absolute(m, x);
  const Node* is_small = m.lt(a, m.c(0x1p20));
  const Reduced small = reduce_small(m, m.pick(is_small, a, m.c(0)));
  const Reduced large = n->dtype == DType::kF64 ? reduce_large_f64(m, a)
                                                : reduce_large(m, ir::cast(g, a, DType::kF32));
  const Node* quadrant = ir::where(g, is_small, small.quadrant, large.quadrant);
  const Node* r = m.pick(is_small, small.remainder, large.remainder);
  const Node* u = m.mul(r, r);
  // (sin(t)/t - 1)/u and (cos(t) - 1 + u/2)/u^2 on |t| <= pi/4: 7e-20 and 2e-20.
  const Node* s =
      m.poly(u, {-7.586622663734701197e-13, 1.6058530258489145304e-10, -2.5052106223125227861e-8,
                 2.7557319219309725101e-6, -0.00019841269841265022919, 0.0083333333333333314701,
                 -0.16666666666666666665});
  const Node* c =
      m.poly(u, {4.7458425886364746027e-14, -1.1470460355098977226e-11, 2.087675578745382471e-9,
                 -2.7557319221391444441e-7, 0.000024801587301584630295, -0.0013888888888888887857,
                 0.041666666666666666666});
  const Node* sine = m.add(r, m.mul(m.mul(r, u), s));
  const Node* cosine = m.add(m.sub(m.c(1), m.mul(u, m.c(0.5))), m.mul(m.mul(u, u), c));
  const auto bit = [&](int64_t b) {
    const Node* masked = ir::alu(g, Op::kAnd, {quadrant, ir::const_int(g, b, DType::kI32)});
    return ir::alu(g, Op::kCmpNe, {masked, ir::const_int(g, 0, DType::kI32)});
  };
  const Node* value = m.pick(bit(1), cosine, sine);
  const Node* flip = ir::alu(g, Op::kCmpNe, {bit(2), m.lt(x, m.c(0))});
  const Node* y = m.pick(flip, m.neg(value), value);
  // sin(-0) is -0.
  const Node* kept = m.pick(ir::alu(g, Op::kCmpEq, {x, m.c(0)}), x, y);
  return ir::cast(g, m.pick(m.lt(a, m.c(kInf)), kept, m.c(std::nan(""))), n->dtype);
}

const Node* decompose_trunc(Graph& g, const Node* n) {
  const Math m{g, n->dtype};
  const Node* x = n->src(0);
  // From 2^mantissa on every value is whole; NaN compares false and stays.
  const Node* has_fraction = m.lt(absolute(m, x), m.c(std::ldexp(1.0, mantissa_bits(m.t))));
  const Node* safe = m.pick(has_fraction, x, m.c(0));
  const Node* whole = m.to(m.to(safe, bits_type(m.t)), m.t);
  // -0.5 becomes -0.
  const Node* signed_zero = m.mul(x, m.c(0));
  const Node* zero = ir::alu(g, Op::kCmpEq, {whole, m.c(0)});
  return m.pick(has_fraction, m.pick(zero, signed_zero, whole), x);
}

}  // namespace modeld::codegen
