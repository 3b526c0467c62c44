#include "selftest/fuzz/kernel_approx.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/ir/narrow_float.h"

namespace modeld::fuzz {

namespace {

using ir::DType;
using ir::Op;
using Real = long double;

// Approximations of functions may be this many units off, where a plain operation is one.
constexpr Real kFunctionUnits = 4;

bool is_exact(const Approx& a) {
  return a.err == 0;
}

bool is_certainly_finite(const Approx& a) {
  return std::isfinite(a.v);
}

int64_t wrap(DType t, uint64_t v) {
  return ir::wrap_to(t, static_cast<int64_t>(v));
}

// A float of type t of which `units` roundings are still to be counted; overflow is nobody's value.
Approx float_of(DType t, Real v, Real err, Real units = 1) {
  if (!std::isfinite(v) || !std::isfinite(err)) return Approx::unknown();
  const Real most = std::fabs(v) + err;
  err += units * (unit_of(t) * most + tiny_of(t));
  if (std::fabs(v) + err > largest_of(t)) return Approx::unknown();
  return Approx::of_float(v, err);
}

// What IEEE gives as soon as an operand is no finite number, or a pole is met exactly.
Approx special(Real v) {
  return Approx::of_float(v);
}

Approx multiply(DType t, const Approx& a, const Approx& b) {
  if (!is_certainly_finite(a) || !is_certainly_finite(b)) {
    const bool sign_open = (std::isfinite(a.v) && a.err > 0 && std::fabs(a.v) <= a.err) ||
                           (std::isfinite(b.v) && b.err > 0 && std::fabs(b.v) <= b.err);
    return sign_open ? Approx::unknown() : special(a.v * b.v);
  }
  return float_of(t, a.v * b.v, std::fabs(a.v) * b.err + std::fabs(b.v) * a.err + a.err * b.err);
}

Approx divide(DType t, const Approx& a, const Approx& b) {
  if (std::isnan(a.v) || std::isnan(b.v)) return special(NAN);
  if (!is_certainly_finite(a) || !is_certainly_finite(b) || b.v == 0) {
    const bool exact = is_exact(a) && is_exact(b);
    return exact ? special(a.v / b.v) : Approx::unknown();
  }
  const Real least = std::fabs(b.v) - b.err;
  if (least <= 0) return Approx::unknown();
  const Real q = a.v / b.v;
  // A quotient may be a product with a rounded reciprocal, which must not overflow or vanish.
  const Real inverse = 1 / least;
  if (inverse > largest_of(t) || 1 / (std::fabs(b.v) + b.err) < tiny_of(t) / unit_of(t))
    return Approx::unknown();
  return float_of(t, q, (a.err + std::fabs(q) * b.err) * inverse, 2);
}

Approx square_root(DType t, const Approx& a) {
  if (!is_certainly_finite(a)) return special(std::sqrt(a.v));
  if (a.v + a.err < 0) return special(NAN);
  if (a.v - a.err < 0) return Approx::unknown();
  const Real low = std::sqrt(a.v - a.err);
  return float_of(t, std::sqrt(a.v), std::sqrt(a.v + a.err) - low, kFunctionUnits);
}

Approx exponential(DType t, const Approx& a) {
  if (!is_certainly_finite(a)) return special(std::exp2(a.v));
  if (std::fabs(a.v) + a.err > 16000) return Approx::unknown();
  const Real v = std::exp2(a.v);
  return float_of(t, v, std::exp2(a.v + a.err) - v, kFunctionUnits);
}

Approx logarithm(DType t, const Approx& a) {
  if (std::isnan(a.v) || !is_certainly_finite(a) || (a.v == 0 && is_exact(a)))
    return special(a.v == 0 ? -INFINITY : std::log2(a.v));
  if (a.v + a.err < 0) return special(NAN);
  if (a.v - a.err <= 0) return Approx::unknown();
  const Real v = std::log2(a.v);
  return float_of(t, v, v - std::log2(a.v - a.err), kFunctionUnits);
}

Approx sine(DType t, const Approx& a) {
  if (!is_certainly_finite(a)) return special(NAN);
  if (a.err > 1) return Approx::of_float(0, 1 + 2 * unit_of(t));
  return float_of(t, std::sin(a.v), a.err, kFunctionUnits);
}

Approx whole(const Approx& a) {
  if (!is_certainly_finite(a)) return a;
  const Real low = std::trunc(a.v - a.err), high = std::trunc(a.v + a.err);
  const Real v = std::trunc(a.v);
  return Approx::of_float(v, std::max(v - low, high - v));
}

Approx larger(const Approx& a, const Approx& b) {
  if (std::isnan(a.v) || std::isnan(b.v)) return special(NAN);
  if (!std::isfinite(a.v) || !std::isfinite(b.v)) return a.v > b.v ? a : b;
  // Which of two zeros comes out is not said.
  if (a.v == 0 && b.v == 0 && std::signbit(a.v) != std::signbit(b.v))
    return Approx::of_float(0, 0x1p-1075L + a.err + b.err);
  return Approx::of_float(std::max(a.v, b.v), std::max(a.err, b.err));
}

Approx sum(DType t, const Approx& a, const Approx& b, Real sign) {
  if (!is_certainly_finite(a) || !is_certainly_finite(b)) return special(a.v + sign * b.v);
  return float_of(t, a.v + sign * b.v, a.err + b.err);
}

Approx compare(Op op, const Approx& a, const Approx& b) {
  const bool decided = is_exact(a) && is_exact(b);
  const bool apart = std::isnan(a.v) || std::isnan(b.v) || !std::isfinite(a.v) ||
                     !std::isfinite(b.v) || std::fabs(a.v - b.v) > a.err + b.err;
  if (!decided && !apart) return Approx::unknown();
  if (op == Op::kCmpLt) return Approx::of_int(a.v < b.v);
  return Approx::of_int(op == Op::kCmpEq ? a.v == b.v : a.v != b.v);
}

Approx float_alu(Op op, DType t, const Approx* a) {
  switch (op) {
    case Op::kAdd:
      return sum(t, a[0], a[1], 1);
    case Op::kSub:
      return sum(t, a[0], a[1], -1);
    case Op::kMul:
      return multiply(t, a[0], a[1]);
    case Op::kMax:
      return larger(a[0], a[1]);
    case Op::kNeg:
      return {-a[0].v, a[0].err, 0, true};
    case Op::kFDiv:
      return divide(t, a[0], a[1]);
    case Op::kReciprocal:
      return divide(t, Approx::of_float(1), a[0]);
    case Op::kSqrt:
      return square_root(t, a[0]);
    case Op::kExp2:
      return exponential(t, a[0]);
    case Op::kLog2:
      return logarithm(t, a[0]);
    case Op::kSin:
      return sine(t, a[0]);
    case Op::kTrunc:
      return whole(a[0]);
    case Op::kCmpLt:
    case Op::kCmpEq:
    case Op::kCmpNe:
      return compare(op, a[0], a[1]);
    default:
      return Approx::unknown();
  }
}

// Quotient and remainder towards zero; -2^63 / -1 wraps, as on the machine.
struct Division {
  int64_t quotient = 0, remainder = 0;
};

Division truncating(DType t, int64_t x, int64_t y) {
  const auto ux = static_cast<uint64_t>(x), uy = static_cast<uint64_t>(y);
  if (t == DType::kU64) return {static_cast<int64_t>(ux / uy), static_cast<int64_t>(ux % uy)};
  if (y == -1) return {static_cast<int64_t>(0 - ux), 0};
  return {x / y, x % y};
}

Division flooring(DType t, int64_t x, int64_t y) {
  Division d = truncating(t, x, y);
  if (t == DType::kU64 || d.remainder == 0 || (x < 0) == (y < 0)) return d;
  return {d.quotient - 1, d.remainder + y};
}

bool is_less(DType t, int64_t x, int64_t y) {
  return t == DType::kU64 ? static_cast<uint64_t>(x) < static_cast<uint64_t>(y) : x < y;
}

// The bits of the result before they wrap; `known` tells of a division by zero or an absurd shift.
uint64_t int_bits(Op op, DType t, int64_t x, int64_t y, bool* known) {
  const auto ux = static_cast<uint64_t>(x), uy = static_cast<uint64_t>(y);
  const bool divides =
      op == Op::kCDiv || op == Op::kCMod || op == Op::kFloorDiv || op == Op::kFloorMod;
  const bool shifts = op == Op::kShl || op == Op::kShr;
  *known = !(divides && y == 0) && !(shifts && (y < 0 || y >= ir::item_bits(t)));
  if (!*known) return 0;
  switch (op) {
    case Op::kAdd:
      return t == DType::kBool ? (ux | uy) : ux + uy;
    case Op::kSub:
      return ux - uy;
    case Op::kMul:
      return ux * uy;
    case Op::kNeg:
      return 0 - ux;
    case Op::kAnd:
      return ux & uy;
    case Op::kOr:
      return ux | uy;
    case Op::kXor:
      return ux ^ uy;
    case Op::kMax:
      return is_less(t, x, y) ? uy : ux;
    case Op::kShl:
      return ux << uy;
    case Op::kShr:
      return t == DType::kU64 ? ux >> uy : static_cast<uint64_t>(x >> y);
    case Op::kCDiv:
      return static_cast<uint64_t>(truncating(t, x, y).quotient);
    case Op::kCMod:
      return static_cast<uint64_t>(truncating(t, x, y).remainder);
    case Op::kFloorDiv:
      return static_cast<uint64_t>(flooring(t, x, y).quotient);
    case Op::kFloorMod:
      return static_cast<uint64_t>(flooring(t, x, y).remainder);
    default:
      *known = false;
      return 0;
  }
}

Approx int_alu(Op op, DType t, const Approx* a) {
  const int64_t x = a[0].i, y = a[1].i;
  if (op == Op::kCmpLt) return Approx::of_int(is_less(t, x, y));
  if (op == Op::kCmpEq) return Approx::of_int(x == y);
  if (op == Op::kCmpNe) return Approx::of_int(x != y);
  bool known = true;
  const uint64_t bits = int_bits(op, t, x, y, &known);
  return known ? Approx::of_int(wrap(t, bits)) : Approx::unknown();
}

Approx float_to_int(DType to, const Approx& a) {
  if (to == DType::kBool) {
    const bool open = a.err > 0 && std::fabs(a.v) <= a.err;
    return open ? Approx::unknown() : Approx::of_int(a.v != 0);
  }
  if (!is_certainly_finite(a)) return Approx::unknown();
  const Real low = std::trunc(a.v - a.err), high = std::trunc(a.v + a.err);
  const bool fits = low >= static_cast<Real>(ir::int_min(to)) &&
                    high <= static_cast<Real>(ir::int_max(to)) && std::fabs(high) < 0x1p62L;
  if (low != high || !fits) return Approx::unknown();
  return Approx::of_int(static_cast<int64_t>(low));
}

}  // namespace

Approx Approx::of_int(int64_t i) {
  Approx a;
  a.i = i;
  return a;
}
Approx Approx::of_float(long double v, long double err) {
  Approx a;
  a.v = v;
  a.err = err;
  return a;
}
Approx Approx::unknown() {
  Approx a;
  a.is_known = false;
  return a;
}

long double unit_of(DType t) {
  if (const ir::Float8* f = ir::float8_format(t)) return std::ldexp(0.5L, -f->mantissa_bits);
  return t == DType::kF16    ? 0x1p-11L
         : t == DType::kBF16 ? 0x1p-8L
         : t == DType::kF32  ? 0x1p-24L
                             : 0x1p-53L;
}
long double tiny_of(DType t) {
  if (ir::float8_format(t) != nullptr) return Real{ir::from_narrow_bits(t, 1)} / 2;
  return t == DType::kF16    ? 0x1p-25L
         : t == DType::kBF16 ? 0x1p-134L
         : t == DType::kF32  ? 0x1p-150L
                             : 0x1p-1075L;
}
long double largest_of(DType t) {
  if (const ir::Float8* f = ir::float8_format(t)) return ir::from_narrow_bits(t, f->max_bits);
  return t == DType::kF16    ? 65504.0L
         : t == DType::kBF16 ? 0x1.fep127L
         : t == DType::kF32  ? 0x1.fffffep127L
                             : 0x1.fffffffffffffp1023L;
}

Approx rounded(DType t, Approx a) {
  if (!a.is_known || !std::isfinite(a.v)) return a;
  if (is_exact(a) && static_cast<Real>(ir::round_to(t, static_cast<double>(a.v))) == a.v) return a;
  return float_of(t, a.v, a.err);
}

Approx approx_alu(Op op, DType t, const Approx* a) {
  const int n = ir::op_arity(op);
  for (int k = 0; k < n; ++k)
    if (!a[k].is_known) return Approx::unknown();
  return ir::is_float(t) ? float_alu(op, t, a) : int_alu(op, t, a);
}

Approx approx_where(DType t, const Approx& c, const Approx& yes, const Approx& no) {
  if (c.is_known) return c.i != 0 ? yes : no;
  if (!yes.is_known || !no.is_known) return Approx::unknown();
  if (!ir::is_float(t)) return yes.i == no.i ? yes : Approx::unknown();
  if (!std::isfinite(yes.v) || !std::isfinite(no.v)) return Approx::unknown();
  return Approx::of_float(yes.v, std::max(yes.err, std::fabs(yes.v - no.v) + no.err));
}

Approx approx_cast(DType from, DType to, const Approx& a) {
  if (!a.is_known) return a;
  if (ir::is_float(from)) return ir::is_float(to) ? rounded(to, a) : float_to_int(to, a);
  if (!ir::is_float(to))
    return Approx::of_int(to == DType::kBool ? a.i != 0 : ir::wrap_to(to, a.i));
  const Real v =
      from == DType::kU64 ? static_cast<Real>(static_cast<uint64_t>(a.i)) : static_cast<Real>(a.i);
  // Halves come from integers by way of f32.
  Approx out = Approx::of_float(v);
  if (ir::is_narrow_float(to)) out = rounded(DType::kF32, out);
  return rounded(to, out);
}

Approx approx_bitcast(DType from, DType to, const Approx& a) {
  if (!a.is_known || (ir::is_float(from) && (!is_exact(a) || std::isnan(a.v))))
    return Approx::unknown();
  if (from == DType::kF32)
    return Approx::of_int(ir::wrap_to(to, std::bit_cast<int32_t>(static_cast<float>(a.v))));
  if (to == DType::kF32) {
    const float f = std::bit_cast<float>(static_cast<uint32_t>(a.i));
    return std::isnan(f) ? Approx::unknown() : Approx::of_float(f);
  }
  return Approx::of_int(ir::wrap_to(to, a.i));
}

ApproxReduce::ApproxReduce(Op op, DType t) : op_(op), t_(t) {
  const bool is_float = ir::is_float(t);
  if (op == Op::kMul) sum_ = is_float ? Approx::of_float(1) : Approx::of_int(1);
  if (op == Op::kMax) {
    const int64_t least = t == DType::kU64 ? 0 : ir::int_min(t);
    sum_ = is_float ? Approx::of_float(-INFINITY) : Approx::of_int(least);
  }
  magnitude_ = op == Op::kMul ? 1 : 0;
}

void ApproxReduce::add(const Approx& a) {
  ++count_;
  if (!sum_.is_known || !a.is_known) {
    sum_ = Approx::unknown();
    return;
  }
  if (!ir::is_float(t_)) {
    const Approx both[2] = {sum_, a};
    sum_ = approx_alu(op_, t_, both);
    return;
  }
  is_finite_ = is_finite_ && std::isfinite(a.v);
  has_nan_ = has_nan_ || std::isnan(a.v);
  if (op_ == Op::kMax) {
    sum_ = larger(sum_, a);
  } else if (op_ == Op::kAdd) {
    sum_.v += a.v;
    sum_.err += a.err;
    magnitude_ += std::fabs(a.v) + a.err;
  } else {
    // An infinity times something that may be zero has no value to agree on.
    if (!is_finite_ && (a.err > 0 || sum_.err > 0)) sum_ = Approx::unknown();
    sum_.v *= a.v;
    magnitude_ *= std::fabs(a.v) + a.err;
    sum_.err += a.err;
    least_ = std::min(least_, least_ * std::fabs(a.v));
    most_ = std::max(most_, most_ * (std::fabs(a.v) + a.err));
  }
}

Approx ApproxReduce::result() const {
  if (!sum_.is_known || !ir::is_float(t_) || op_ == Op::kMax) return sum_;
  // A factor of every term may be taken out of the sum: infinities that cancel term by term need
  // not do so then.
  if (!is_finite_) return std::isnan(sum_.v) && !has_nan_ ? Approx::unknown() : special(sum_.v);
  const auto n = static_cast<Real>(count_);
  const Real grown = std::pow(1 + unit_of(t_), n);
  if (op_ == Op::kAdd) {
    if (magnitude_ * grown > largest_of(t_)) return Approx::unknown();
    return Approx::of_float(sum_.v, sum_.err + (magnitude_ * (grown - 1)) + n * tiny_of(t_));
  }
  // Partial products may take any subset first.
  const bool vanishes = least_ != 0 && least_ < tiny_of(t_) / unit_of(t_);
  if (vanishes || most_ * grown > largest_of(t_)) return Approx::unknown();
  return Approx::of_float(sum_.v, magnitude_ * grown - std::fabs(sum_.v) + n * tiny_of(t_) * most_);
}

bool agrees(DType t, const Approx& want, double got_float, int64_t got_int) {
  if (!want.is_known) return true;
  if (!ir::is_float(t)) return want.i == got_int;
  if (std::isnan(want.v)) return std::isnan(got_float);
  if (!std::isfinite(want.v)) return static_cast<Real>(got_float) == want.v;
  return std::fabs(static_cast<Real>(got_float) - want.v) <= want.err * 1.0001L;
}

}  // namespace modeld::fuzz
