// Constant folding with the arithmetic of the runtime: typed ints wrap, weak ints must not, floats
// round once.
#include <bit>
#include <cmath>
#include <optional>

#include "runtime/ir/symbolic.h"

namespace modeld::ir {
namespace {

std::optional<int64_t> floor_div(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
  const int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}

std::optional<int64_t> divide(Op op, int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
  switch (op) {
    case Op::kCDiv:
      return a / b;
    case Op::kCMod:
      return a % b;
    case Op::kFloorDiv:
      return floor_div(a, b);
    default:
      return a - *floor_div(a, b) * b;
  }
}

// Sized types wrap around (that is what the machine does); a weak result that overflows cannot be
// folded.
std::optional<int64_t> checked(DType t, Op op, int64_t a, int64_t b) {
  int64_t r = 0;
  bool over = false;
  if (op == Op::kAdd) over = __builtin_add_overflow(a, b, &r);
  if (op == Op::kSub) over = __builtin_sub_overflow(a, b, &r);
  if (op == Op::kMul) over = __builtin_mul_overflow(a, b, &r);
  if (over && is_weak(t)) return std::nullopt;
  return r;
}

// Unsigned 64-bit values live in int64 as bits: order and division need the unsigned view.
std::optional<int64_t> u64_op(Op op, uint64_t a, uint64_t b) {
  switch (op) {
    case Op::kCDiv:
    case Op::kFloorDiv:
      return b == 0 ? std::nullopt : std::optional<int64_t>(static_cast<int64_t>(a / b));
    case Op::kCMod:
    case Op::kFloorMod:
      return b == 0 ? std::nullopt : std::optional<int64_t>(static_cast<int64_t>(a % b));
    case Op::kMax:
      return static_cast<int64_t>(a > b ? a : b);
    case Op::kCmpLt:
      return a < b;
    case Op::kShr:
      return b < 64 ? std::optional<int64_t>(static_cast<int64_t>(a >> b)) : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> int_op(DType t, Op op, int64_t a, int64_t b) {
  if (t == DType::kU64) {
    if (auto r = u64_op(op, static_cast<uint64_t>(a), static_cast<uint64_t>(b))) return r;
  }
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
      return checked(t, op, a, b);
    case Op::kCDiv:
    case Op::kCMod:
    case Op::kFloorDiv:
    case Op::kFloorMod:
      return divide(op, a, b);
    case Op::kShl:
      return b >= 0 && b < item_bits(t)
                 ? std::optional<int64_t>(static_cast<int64_t>(static_cast<uint64_t>(a) << b))
                 : std::nullopt;
    case Op::kShr:
      return b >= 0 && b < item_bits(t) ? std::optional<int64_t>(a >> b) : std::nullopt;
    case Op::kMax:
      return a > b ? a : b;
    case Op::kAnd:
      return a & b;
    case Op::kOr:
      return a | b;
    case Op::kXor:
      return a ^ b;
    case Op::kCmpLt:
      return a < b;
    case Op::kCmpEq:
      return a == b;
    case Op::kCmpNe:
      return a != b;
    default:
      return std::nullopt;
  }
}

std::optional<double> float_op(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return a + b;
    case Op::kSub:
      return a - b;
    case Op::kMul:
      return a * b;
    case Op::kFDiv:
      return a / b;
    case Op::kMax:
      return std::isnan(a) || std::isnan(b) ? std::nan("") : (a > b ? a : b);
    case Op::kPow:
      return std::pow(a, b);
    case Op::kCmpLt:
      return a < b;
    case Op::kCmpEq:
      return a == b;
    case Op::kCmpNe:
      return a != b;
    default:
      return std::nullopt;
  }
}

std::optional<double> float_unary(Op op, double a) {
  switch (op) {
    case Op::kExp2:
      return std::exp2(a);
    case Op::kLog2:
      return std::log2(a);
    case Op::kSin:
      return std::sin(a);
    case Op::kSqrt:
      return std::sqrt(a);
    case Op::kReciprocal:
      return 1.0 / a;
    case Op::kNeg:
      return -a;
    case Op::kTrunc:
      return std::trunc(a);
    default:
      return std::nullopt;
  }
}

const Node* fold_cast(Graph& g, const Node* n) {
  const Node* s = n->src(0);
  if (const auto v = int_value(s)) {
    if (is_float(n->dtype)) {
      const double d = s->dtype == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(*v))
                                               : static_cast<double>(*v);
      return const_of(g, n->dtype, d);
    }
    return const_int(g, *v, n->dtype);
  }
  if (!s->has<double>()) return nullptr;
  const double v = s->as<double>();
  if (is_float(n->dtype)) return const_of(g, n->dtype, v);
  if (n->dtype == DType::kBool) return const_bool(g, v != 0);
  // Out-of-range float to int is undefined on the target: leave it to the target.
  const double t = std::trunc(v);
  if (!(t >= static_cast<double>(int_min(n->dtype)) &&
        t <= static_cast<double>(int_max(n->dtype)) && std::fabs(t) < 9e18))
    return nullptr;
  return const_int(g, static_cast<int64_t>(t), n->dtype);
}

const Node* fold_bitcast(Graph& g, const Node* n) {
  const Node* s = n->src(0);
  if (s->dtype == DType::kF32 && (n->dtype == DType::kI32 || n->dtype == DType::kU32)) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(s->as<double>()));
    return const_int(
        g, n->dtype == DType::kI32 ? static_cast<int32_t>(bits) : static_cast<int64_t>(bits),
        n->dtype);
  }
  if ((s->dtype == DType::kI32 || s->dtype == DType::kU32) && n->dtype == DType::kF32) {
    const float f = std::bit_cast<float>(static_cast<uint32_t>(s->as<int64_t>()));
    if (std::isnan(f)) return nullptr;  // NaN payloads are not kept by constants
    return const_of(g, n->dtype, static_cast<double>(f));
  }
  return nullptr;
}

const Node* typed(Graph& g, DType t, std::optional<int64_t> v) {
  return v ? const_int(g, *v, t) : nullptr;
}

}  // namespace

const Node* fold_const(Graph& g, const Node* n) {
  if (n->nsrc == 0) return nullptr;
  for (const Node* s : n->src()) {
    if (!is_const(s) || s->has<Invalid>()) return nullptr;
  }
  if (n->op == Op::kCast) return fold_cast(g, n);
  if (n->op == Op::kBitCast) return fold_bitcast(g, n);
  if (n->op == Op::kWhere) return int_value(n->src(0)).value_or(0) != 0 ? n->src(1) : n->src(2);
  if (n->op == Op::kMulAcc) return nullptr;
  const DType in = n->src(0)->dtype;
  if (n->nsrc == 1) {
    if (is_float(in)) {
      const auto v = float_unary(n->op, n->src(0)->as<double>());
      return v ? const_of(g, n->dtype, *v) : nullptr;
    }
    if (n->op == Op::kNeg)
      return typed(g, n->dtype, int_op(in, Op::kSub, 0, *int_value(n->src(0))));
    if (n->op == Op::kTrunc) return n->src(0);
    return nullptr;
  }
  if (n->nsrc != 2) return nullptr;
  if (is_float(in)) {
    const auto v = float_op(n->op, *num_value(n->src(0)), *num_value(n->src(1)));
    return v ? const_of(g, n->dtype, *v) : nullptr;
  }
  return typed(g, n->dtype, int_op(in, n->op, *int_value(n->src(0)), *int_value(n->src(1))));
}

}  // namespace modeld::ir
