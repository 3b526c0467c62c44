#include "selftest/testing/scalar_alu.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/ir/narrow_float.h"

namespace modeld::testing {

using ir::DType;
using ir::Node;
using ir::Op;

namespace {

int64_t wrap(DType t, int64_t v) {
  return ir::is_weak(t) ? v : ir::wrap_to(t, v);
}

// The least value divided by -1 has no quotient in its type: it wraps, where C traps.
int64_t quotient(int64_t a, int64_t b) {
  return b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
}

int64_t remainder_of(int64_t a, int64_t b) {
  return b == -1 ? 0 : a % b;
}

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = quotient(a, b);
  return q - ((remainder_of(a, b) != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

uint64_t bits_of(DType t, Scalar v) {
  if (!ir::is_float(t)) return static_cast<uint64_t>(v.i);
  uint64_t b64 = 0;
  uint32_t b32 = 0;
  const auto single = static_cast<float>(v.f);
  std::memcpy(&b64, &v.f, 8);
  std::memcpy(&b32, &single, 4);
  if (t == DType::kF64) return b64;
  if (t == DType::kF32) return b32;
  // A value of the type already: an infinity is itself, where narrowing would saturate.
  const ir::Float8* byte = ir::float8_format(t);
  if (byte != nullptr && byte->has_infinity && std::isinf(v.f))
    return byte->max_bits + 1U + (std::signbit(v.f) ? 0x80U : 0U);
  return ir::to_narrow_bits(t, v.f);
}

Scalar from_bits(DType t, uint64_t bits) {
  Scalar v;
  if (!ir::is_float(t)) {
    v.i = wrap(t, static_cast<int64_t>(bits));
    return v;
  }
  const auto b32 = static_cast<uint32_t>(bits);
  float single = 0;
  std::memcpy(&single, &b32, 4);
  if (t == DType::kF64) std::memcpy(&v.f, &bits, 8);
  if (t == DType::kF32) v.f = static_cast<double>(single);
  if (ir::is_narrow_float(t))
    v.f = static_cast<double>(ir::from_narrow_bits(t, static_cast<uint16_t>(bits)));
  return v;
}

Result<Scalar> float_alu(const Node* n, const Scalar* a) {
  Scalar v;
  const double x = a[0].f;
  const double y = a[1].f;
  switch (n->op) {
    case Op::kExp2:
      v.f = std::exp2(x);
      break;
    case Op::kLog2:
      v.f = std::log2(x);
      break;
    case Op::kSin:
      v.f = std::sin(x);
      break;
    case Op::kSqrt:
      v.f = std::sqrt(x);
      break;
    case Op::kReciprocal:
      v.f = 1 / x;
      break;
    case Op::kNeg:
      v.f = -x;
      break;
    case Op::kTrunc:
      v.f = std::trunc(x);
      break;
    case Op::kAdd:
      v.f = x + y;
      break;
    case Op::kSub:
      v.f = x - y;
      break;
    case Op::kMul:
      v.f = x * y;
      break;
    case Op::kFDiv:
      v.f = x / y;
      break;
    case Op::kPow:
      v.f = std::pow(x, y);
      break;
    case Op::kMax:
      v.f = x < y || std::isnan(y) ? y : x;  // a NaN comes through
      break;
    case Op::kMulAcc:
      v.f = x * y + a[2].f;
      break;
    case Op::kCmpLt:
      v.i = x < y;
      break;
    case Op::kCmpNe:
      v.i = x != y;
      break;
    case Op::kCmpEq:
      v.i = x == y;
      break;
    default:
      return fail(Errc::kUnsupported, strf("interpreter: %s of floats", ir::op_name(n->op)));
  }
  return v;
}

Result<Scalar> int_alu(const Node* n, const Scalar* a) {
  const bool divides =
      n->op == Op::kCDiv || n->op == Op::kCMod || n->op == Op::kFloorDiv || n->op == Op::kFloorMod;
  const int64_t x = a[0].i;
  const int64_t y = a[1].i;
  const bool is_u64 = n->src(0)->dtype == DType::kU64;  // the one type whose order is not int64's
  const auto ux = static_cast<uint64_t>(x);
  const auto uy = static_cast<uint64_t>(y);
  if (divides && y == 0) return fail(Errc::kInvalid, "interpreter: division by zero");
  Scalar v;
  switch (n->op) {
    case Op::kNeg:
      v.i = static_cast<int64_t>(0 - static_cast<uint64_t>(x));
      break;
    case Op::kAdd:
      v.i = n->dtype == DType::kBool
                ? (x | y)
                : static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
      break;
    case Op::kSub:
      v.i = static_cast<int64_t>(static_cast<uint64_t>(x) - static_cast<uint64_t>(y));
      break;
    case Op::kMul:
      v.i = static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
      break;
    case Op::kShl:
      v.i = static_cast<int64_t>(static_cast<uint64_t>(x) << y);
      break;
    case Op::kShr:
      v.i = is_u64 ? static_cast<int64_t>(ux >> uy) : x >> y;
      break;
    case Op::kCDiv:
      v.i = is_u64 ? static_cast<int64_t>(ux / uy) : quotient(x, y);
      break;
    case Op::kCMod:
      v.i = is_u64 ? static_cast<int64_t>(ux % uy) : remainder_of(x, y);
      break;
    case Op::kFloorDiv:
      v.i = floor_div(x, y);
      break;
    case Op::kFloorMod:
      v.i = x - floor_div(x, y) * y;
      break;
    case Op::kMax:
      v.i = is_u64 ? static_cast<int64_t>(std::max(ux, uy)) : std::max(x, y);
      break;
    case Op::kXor:
      v.i = x ^ y;
      break;
    case Op::kOr:
      v.i = x | y;
      break;
    case Op::kAnd:
      v.i = x & y;
      break;
    case Op::kMulAcc:
      v.i = x * y + a[2].i;
      break;
    case Op::kCmpLt:
      v.i = is_u64 ? ux < uy : x < y;
      return v;
    case Op::kCmpNe:
      v.i = x != y;
      return v;
    case Op::kCmpEq:
      v.i = x == y;
      return v;
    default:
      return fail(Errc::kUnsupported, strf("interpreter: %s of integers", ir::op_name(n->op)));
  }
  v.i = wrap(n->dtype, v.i);
  return v;
}

}  // namespace

Scalar scalar_constant(const Node* n) {
  Scalar v;
  if (n->has<ir::Invalid>()) {
    v.invalid = true;
  } else if (ir::is_float(n->dtype)) {
    v.f = ir::num_value(n).value_or(0);
  } else {
    v.i = ir::int_value(n).value_or(0);
  }
  return v;
}

Scalar scalar_convert(DType from, DType to, Scalar v) {
  if (v.invalid) return v;
  Scalar out;
  if (ir::is_float(from) && ir::is_float(to)) {
    out.f = ir::is_weak(to) ? v.f : ir::round_to(to, v.f);
  } else if (ir::is_float(to)) {
    const bool is_u64 = from == DType::kU64;
    const double exact =
        is_u64 ? static_cast<double>(static_cast<uint64_t>(v.i)) : static_cast<double>(v.i);
    out.f = ir::is_weak(to) ? exact : ir::round_to(to, exact);
  } else if (to == DType::kBool) {
    out.i = ir::is_float(from) ? v.f != 0 : v.i != 0;
  } else if (ir::is_float(from)) {
    const double t = std::trunc(v.f);
    const bool fits = t >= -9.2e18 && t <= 9.2e18;
    out.i = fits ? wrap(to, static_cast<int64_t>(t)) : 0;
  } else {
    out.i = wrap(to, v.i);
  }
  return out;
}

Scalar scalar_bitcast(DType from, DType to, Scalar v) {
  return from_bits(to, bits_of(from, v));
}

Result<Scalar> scalar_alu(const Node* n, const Scalar* operands) {
  return ir::is_float(n->src(n->nsrc - 1)->dtype) ? float_alu(n, operands) : int_alu(n, operands);
}

}  // namespace modeld::testing
