#include "selftest/fuzz/graph_exact.h"

#include <algorithm>
#include <cmath>

namespace modeld::fuzz {

using ir::DType;
using ir::Op;

Exact exact_range(double low, double high, int grain) {
  return {low, high, std::max(std::fabs(low), std::fabs(high)), grain};
}

Exact exact_of(const testing::EagerArray& contents) {
  Exact e = exact_range(contents.v.at(0), contents.v[0]);
  for (const double v : contents.v) {
    e.low = std::min(e.low, v);
    e.high = std::max(e.high, v);
    while (e.grain < 60 && std::ldexp(v, e.grain) != std::trunc(std::ldexp(v, e.grain))) ++e.grain;
  }
  return exact_range(e.low, e.high, e.grain);
}

Exact exact_union(const Exact& a, const Exact& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), std::max(a.peak, b.peak),
          std::max(a.grain, b.grain)};
}

namespace {

Exact product(const Exact& a, const Exact& b) {
  const double corners[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
  const auto [low, high] = std::minmax_element(std::begin(corners), std::end(corners));
  return {*low, *high, a.peak * b.peak, a.grain + b.grain};
}

// AND, OR, XOR: within the next power of two; negative operands give negative results.
Exact bits(Op op, const Exact& a, const Exact& b) {
  if (op == Op::kAnd && (a.low >= 0 || b.low >= 0)) {
    const double high = a.low < 0 ? b.high : b.low < 0 ? a.high : std::min(a.high, b.high);
    return exact_range(0, high);
  }
  const double most = 2 * std::max({a.peak, b.peak, 1.0});
  return exact_range(a.low < 0 || b.low < 0 ? -most : 0, most);
}

}  // namespace

Exact exact_alu(Op op, std::span<const Exact> args) {
  const Exact& a = args[0];
  const Exact& b = args[args.size() - 1];
  const int grain = std::max(a.grain, b.grain);
  switch (op) {
    case Op::kAdd:
      return {a.low + b.low, a.high + b.high, a.peak + b.peak, grain};
    case Op::kSub:
      return {a.low - b.high, a.high - b.low, a.peak + b.peak, grain};
    case Op::kMul:
      return product(a, b);
    case Op::kMax:
      return exact_range(std::max(a.low, b.low), std::max(a.high, b.high), grain);
    case Op::kNeg:
      return {-a.high, -a.low, a.peak, a.grain};
    case Op::kTrunc:
      return exact_range(std::trunc(a.low), std::trunc(a.high));
    case Op::kWhere:
      return exact_union(args[1], args[2]);
    case Op::kCmpLt:
    case Op::kCmpNe:
    case Op::kCmpEq:
      return exact_range(0, 1);
    default:
      return bits(op, a, b);
  }
}

Exact exact_reduce(Op op, const Exact& x, int64_t count) {
  const auto n = static_cast<double>(count);
  return op == Op::kAdd ? Exact{x.low * n, x.high * n, x.peak * n, x.grain} : x;
}

Exact exact_cast(const Exact& x, DType to) {
  if (to == DType::kBool) return exact_range(0, 1);
  if (to == DType::kU8) return exact_range(0, 255);
  return ir::is_float(to) ? x : exact_range(std::trunc(x.low), std::trunc(x.high));
}

bool fits(DType t, Exact* e) {
  switch (t) {
    case DType::kF32:
      return e->peak < std::ldexp(1.0, 24 - e->grain);
    case DType::kF16:
      return e->peak < std::ldexp(1.0, 11 - e->grain) && e->peak < 3e4 && e->grain < 10;
    case DType::kI32:
      return e->peak < std::ldexp(1.0, 31);
    case DType::kU32:
      return e->low >= 0 && e->peak < std::ldexp(1.0, 31);
    case DType::kU8:
      if (e->low < 0 || e->high > 255) *e = exact_range(0, 255);
      return true;
    default:
      *e = exact_range(0, 1);
      return true;
  }
}

}  // namespace modeld::fuzz
