#include "selftest/ops/op_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "selftest/fuzz/kernel_approx.h"

namespace modeld::ops {

namespace {

using ir::DType;
using ir::Op;
using Real = long double;

Element of_float(Real v) {
  return {v, 0};
}

Real larger(Real a, Real b) {
  if (std::isnan(a) || std::isnan(b)) return NAN;
  return a > b ? a : b;
}

// Threefry-2x32, 20 rounds, written from the paper's round function: Salmon et al. 2011, table 2.
uint64_t threefry(uint64_t counter, uint64_t key) {
  constexpr unsigned kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  const uint32_t keys[3] = {k0, k1, 0x1bd11bdau ^ k0 ^ k1};
  uint32_t x0 = static_cast<uint32_t>(counter) + keys[0];
  uint32_t x1 = static_cast<uint32_t>(counter >> 32) + keys[1];
  for (unsigned round = 0; round < 20; ++round) {
    x0 += x1;
    x1 = std::rotl(x1, static_cast<int>(kRotations[round % 8])) ^ x0;
    if (round % 4 != 3) continue;
    const unsigned inject = round / 4 + 1;
    x0 += keys[inject % 3];
    x1 += keys[(inject + 1) % 3] + inject;
  }
  return uint64_t{x1} << 32 | x0;
}

// b ^ e modulo 2^64; a negative power of anything but 1 and -1 is a fraction, so 0.
int64_t whole_power(DType t, int64_t b, int64_t e) {
  const bool is_negative = t != DType::kU64 && e < 0;
  if (is_negative) return b == 1 ? 1 : b == -1 ? (e % 2 == 0 ? 1 : -1) : 0;
  uint64_t out = 1, power = static_cast<uint64_t>(b);
  for (auto bits = static_cast<uint64_t>(e); bits != 0; bits >>= 1) {
    if (bits & 1) out *= power;
    power *= power;
  }
  return ir::wrap_to(t, static_cast<int64_t>(out));
}

Element float_op(Op op, const Element* a) {
  const Real x = a[0].f, y = a[1].f;
  switch (op) {
    case Op::kExp2:
      return of_float(std::exp2(x));
    case Op::kLog2:
      return of_float(std::log2(x));
    case Op::kSin:
      return of_float(std::sin(x));
    case Op::kSqrt:
      return of_float(std::sqrt(x));
    case Op::kReciprocal:
      return of_float(1 / x);
    case Op::kNeg:
      return of_float(-x);
    case Op::kTrunc:
      return of_float(std::trunc(x));
    case Op::kAdd:
      return of_float(x + y);
    case Op::kSub:
      return of_float(x - y);
    case Op::kMul:
      return of_float(x * y);
    case Op::kFDiv:
      return of_float(x / y);
    case Op::kMax:
      return of_float(larger(x, y));
    case Op::kPow:
      return of_float(y == 0 ? 1 : std::pow(x, y));
    case Op::kMulAcc:
      return of_float(x * y + a[2].f);
    case Op::kCmpLt:
      return {0, x < y};
    case Op::kCmpNe:
      return {0, x != y};
    default:
      return {0, x == y};
  }
}

}  // namespace

Element reference(Op op, DType t, const Element* a) {
  if (op == Op::kWhere) return a[0].i != 0 ? a[1] : a[2];
  if (ir::is_float(t)) return float_op(op, a);
  if (op == Op::kPow) return {0, whole_power(t, a[0].i, a[1].i)};
  if (op == Op::kThreefry) {
    const uint64_t bits = threefry(static_cast<uint64_t>(a[0].i), static_cast<uint64_t>(a[1].i));
    return {0, static_cast<int64_t>(bits)};
  }
  const bool is_ternary = op == Op::kWhere || op == Op::kMulAcc;
  const fuzz::Approx exact[3] = {fuzz::Approx::of_int(a[0].i), fuzz::Approx::of_int(a[1].i),
                                 fuzz::Approx::of_int(is_ternary ? a[2].i : 0)};
  return {0, fuzz::approx_alu(op, t, exact).i};
}

Element reference_cast(DType from, DType to, Element a) {
  if (ir::is_float(from)) {
    if (ir::is_float(to)) return a;
    if (to == DType::kBool) return {0, a.f != 0};
    return {0, ir::wrap_to(to, static_cast<int64_t>(a.f))};
  }
  if (!ir::is_float(to)) return {0, to == DType::kBool ? a.i != 0 : ir::wrap_to(to, a.i)};
  const bool is_u64 = from == DType::kU64;
  return of_float(is_u64 ? static_cast<Real>(static_cast<uint64_t>(a.i)) : static_cast<Real>(a.i));
}

namespace {

uint64_t to_bits(DType t, Element a) {
  switch (t) {
    case DType::kF64:
      return std::bit_cast<uint64_t>(static_cast<double>(a.f));
    case DType::kF32:
      return std::bit_cast<uint32_t>(static_cast<float>(a.f));
    default:
      return ir::is_narrow_float(t) ? ir::to_narrow_bits(t, static_cast<double>(a.f))
                                    : static_cast<uint64_t>(a.i);
  }
}

}  // namespace

Element reference_bitcast(DType from, DType to, Element a) {
  const uint64_t bits = to_bits(from, a);
  switch (to) {
    case DType::kF64:
      return of_float(std::bit_cast<double>(bits));
    case DType::kF32:
      return of_float(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    default:
      if (ir::is_narrow_float(to))
        return of_float(ir::from_narrow_bits(to, static_cast<uint16_t>(bits)));
      return {0, ir::wrap_to(to, static_cast<int64_t>(bits))};
  }
}

long double units_off(DType t, double got, long double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isnan(got)) return INFINITY;
  const Real largest = fuzz::largest_of(t);
  if (ir::item_bits(t) == 8) exact = std::clamp(exact, -largest, largest);  // they saturate
  if (std::isinf(exact)) return static_cast<Real>(got) == exact ? 0 : INFINITY;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const int bits = -std::ilogb(fuzz::unit_of(t));
  const Real smallest = 2 * fuzz::tiny_of(t);
  const Real unit =
      exact == 0 ? smallest : std::max(std::ldexp(Real{1}, exponent - bits), smallest);
  // Beyond the largest number the next place on the same grid stands for infinity.
  Real at = got;
  if (std::isinf(got)) at = std::copysign(largest + std::ldexp(largest, -bits + 1), Real{got});
  Real want = exact;
  if (std::fabs(want) > largest && std::isinf(got)) {
    const bool same = std::signbit(want) == std::signbit(at);
    if (same && std::fabs(want) >= largest) return 0;
  }
  return std::fabs(at - want) / unit;
}

}  // namespace modeld::ops
