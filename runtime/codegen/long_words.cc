#include "runtime/codegen/long_words.h"

namespace modeld::codegen {

using ir::DType;
using ir::Node;
using ir::Op;

namespace {

constexpr int kBits = 64;

}  // namespace

LongWords LongMath::constant(int64_t v) const {
  const auto bits = static_cast<uint64_t>(v);
  return {k(static_cast<int64_t>(bits & 0xffffffff)), k(static_cast<int64_t>(bits >> 32))};
}

const Node* LongMath::sign_of(N high) const {
  N as_signed = ir::cast(g_, high, DType::kI32);
  return ir::cast(g_, op(Op::kShr, as_signed, ir::const_int(g_, 31, DType::kI32)), DType::kU32);
}

LongWords LongMath::add(const LongWords& a, const LongWords& b) const {
  N low = op(Op::kAdd, a.low, b.low);
  N carry = flag(ir::lt(g_, low, a.low));
  return {low, op(Op::kAdd, op(Op::kAdd, a.high, b.high), carry)};
}

LongWords LongMath::sub(const LongWords& a, const LongWords& b) const {
  N borrow = flag(ir::lt(g_, a.low, b.low));
  return {op(Op::kSub, a.low, b.low), op(Op::kSub, op(Op::kSub, a.high, b.high), borrow)};
}

// The product of the low words by 16-bit pieces, then what the high words add.
LongWords LongMath::mul(const LongWords& a, const LongWords& b) const {
  const auto low16 = [&](N x) { return op(Op::kAnd, x, k(0xffff)); };
  const auto high16 = [&](N x) { return op(Op::kShr, x, k(16)); };
  N al = low16(a.low), ah = high16(a.low), bl = low16(b.low), bh = high16(b.low);
  N first = op(Op::kAdd, op(Op::kMul, ah, bl), high16(op(Op::kMul, al, bl)));
  N second = op(Op::kAdd, op(Op::kMul, al, bh), low16(first));
  N carried = op(Op::kAdd, op(Op::kAdd, op(Op::kMul, ah, bh), high16(first)), high16(second));
  N crossed = op(Op::kAdd, op(Op::kMul, a.low, b.high), op(Op::kMul, a.high, b.low));
  return {op(Op::kMul, a.low, b.low), op(Op::kAdd, carried, crossed)};
}

LongWords LongMath::shift_left(const LongWords& a, N count) const {
  N by = op(Op::kAnd, count, k(31));
  N is_far = op(Op::kCmpNe, op(Op::kAnd, count, k(32)), k(0));
  N low = op(Op::kShl, a.low, by);
  // In two steps, so that no shift is by 32.
  N crossing = op(Op::kShr, op(Op::kShr, a.low, k(1)), op(Op::kSub, k(31), by));
  N high = op(Op::kOr, op(Op::kShl, a.high, by), crossing);
  return {ir::where(g_, is_far, k(0), low), ir::where(g_, is_far, low, high)};
}

LongWords LongMath::shift_right(const LongWords& a, N count, bool is_signed) const {
  N by = op(Op::kAnd, count, k(31));
  N is_far = op(Op::kCmpNe, op(Op::kAnd, count, k(32)), k(0));
  N high = op(Op::kShr, a.high, by);
  if (is_signed) {
    N moved = op(Op::kShr, ir::cast(g_, a.high, DType::kI32), ir::cast(g_, by, DType::kI32));
    high = ir::cast(g_, moved, DType::kU32);
  }
  N crossing = op(Op::kShl, op(Op::kShl, a.high, k(1)), op(Op::kSub, k(31), by));
  N low = op(Op::kOr, op(Op::kShr, a.low, by), crossing);
  N filled = is_signed ? sign_of(a.high) : k(0);
  return {ir::where(g_, is_far, high, low), ir::where(g_, is_far, filled, high)};
}

// Unsigned, bit by bit from the top.
LongMath::Quotient LongMath::divide(const LongWords& a, const LongWords& b) const {
  LongWords rest = constant(0), quotient = constant(0);
  for (int bit = kBits - 1; bit >= 0; --bit) {
    N word = bit >= 32 ? a.high : a.low;
    N next = op(Op::kAnd, op(Op::kShr, word, k(bit % 32)), k(1));
    N lost = op(Op::kCmpNe, op(Op::kShr, rest.high, k(31)), k(0));
    rest = {op(Op::kOr, op(Op::kShl, rest.low, k(1)), next),
            op(Op::kOr, op(Op::kShl, rest.high, k(1)), op(Op::kShr, rest.low, k(31)))};
    N fits = ir::logical_not(g_, compare(Op::kCmpLt, DType::kU64, rest, b));
    N takes = op(Op::kOr, lost, fits);
    rest = pick(takes, sub(rest, b), rest);
    N set = op(Op::kShl, flag(takes), k(bit % 32));
    N& part = bit >= 32 ? quotient.high : quotient.low;
    part = op(Op::kOr, part, set);
  }
  N by_zero = op(Op::kCmpEq, op(Op::kOr, b.low, b.high), k(0));
  return {pick(by_zero, constant(0), quotient), pick(by_zero, a, rest)};
}

LongWords LongMath::negated_if(N condition, const LongWords& a) const {
  return pick(condition, sub(constant(0), a), a);
}

LongWords LongMath::divided(bool wants_quotient, bool is_signed, LongWords a, LongWords b) const {
  if (!is_signed) {
    const Quotient q = divide(a, b);
    return wants_quotient ? q.quotient : q.remainder;
  }
  N a_negative = op(Op::kCmpNe, sign_of(a.high), k(0));
  N b_negative = op(Op::kCmpNe, sign_of(b.high), k(0));
  const Quotient q = divide(negated_if(a_negative, a), negated_if(b_negative, b));
  if (!wants_quotient) return negated_if(a_negative, q.remainder);
  return negated_if(op(Op::kCmpNe, a_negative, b_negative), q.quotient);
}

LongWords LongMath::pick(N c, const LongWords& a, const LongWords& b) const {
  return {ir::where(g_, c, a.low, b.low), ir::where(g_, c, a.high, b.high)};
}

LongWords LongMath::alu(Op o, DType t, const LongWords& a, const LongWords& b) const {
  const bool is_signed = t == DType::kI64;
  switch (o) {
    case Op::kAdd:
      return add(a, b);
    case Op::kSub:
      return sub(a, b);
    case Op::kMul:
      return mul(a, b);
    case Op::kNeg:
      return sub(constant(0), a);
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
      return {op(o, a.low, b.low), op(o, a.high, b.high)};
    case Op::kMax:
      return pick(compare(Op::kCmpLt, t, a, b), b, a);
    case Op::kShl:
      return shift_left(a, b.low);
    case Op::kShr:
      return shift_right(a, b.low, is_signed);
    case Op::kCDiv:
    case Op::kCMod:
      return divided(o == Op::kCDiv, is_signed, a, b);
    default:
      g_.fail(Errc::kUnsupported, strf("i64 as two words: no form of %s", ir::op_name(o)));
      return a;
  }
}

const Node* LongMath::compare(Op o, DType t, const LongWords& a, const LongWords& b) const {
  N same_high = op(Op::kCmpEq, a.high, b.high);
  if (o == Op::kCmpLt) {
    const DType word = t == DType::kI64 ? DType::kI32 : DType::kU32;
    N higher = ir::lt(g_, ir::cast(g_, a.high, word), ir::cast(g_, b.high, word));
    return op(Op::kOr, higher, ir::land(g_, same_high, ir::lt(g_, a.low, b.low)));
  }
  N same = ir::land(g_, same_high, op(Op::kCmpEq, a.low, b.low));
  return o == Op::kCmpEq ? same : ir::logical_not(g_, same);
}

// Magnitudes by 16-bit pieces: i32 holds those on every target.
LongWords LongMath::from_float(N x) const {
  const DType t = x->dtype;
  const auto c = [&](double v) { return ir::const_of(g_, t, v); };
  N negative = ir::lt(g_, x, c(0));
  N rest = ir::where(g_, negative, g_.make(Op::kNeg, t, {x}), x);
  N pieces[4];
  for (int i = 3; i >= 0; --i) {
    const double weight = i == 3 ? 0x1p48 : i == 2 ? 0x1p32 : i == 1 ? 0x1p16 : 1;
    N whole = g_.make(Op::kTrunc, t, {ir::mul(g_, rest, c(1 / weight))});
    pieces[i] = ir::cast(g_, ir::cast(g_, whole, DType::kI32), DType::kU32);
    rest = op(Op::kSub, rest, ir::mul(g_, whole, c(weight)));
  }
  const auto word = [&](N high, N low) { return op(Op::kOr, op(Op::kShl, high, k(16)), low); };
  return negated_if(negative, {word(pieces[1], pieces[0]), word(pieces[3], pieces[2])});
}

LongWords LongMath::from(N n) const {
  if (ir::is_float(n->dtype)) return from_float(n);
  if (ir::is_unsigned(n->dtype)) return {ir::cast(g_, n, DType::kU32), k(0)};
  N low = ir::cast(g_, ir::cast(g_, n, DType::kI32), DType::kU32);
  return {low, sign_of(low)};
}

const Node* LongMath::to_float(const LongWords& a, bool is_signed, DType t) const {
  N negative = is_signed ? op(Op::kCmpNe, sign_of(a.high), k(0)) : ir::const_bool(g_, false);
  const LongWords m = is_signed ? negated_if(negative, a) : a;
  // In f64, where each word is exact and only the sum rounds.
  N high = ir::mul(g_, ir::cast(g_, m.high, DType::kF64), ir::const_of(g_, DType::kF64, 0x1p32));
  N sum = ir::add(g_, high, ir::cast(g_, m.low, DType::kF64));
  N value = is_signed ? ir::where(g_, negative, g_.make(Op::kNeg, DType::kF64, {sum}), sum) : sum;
  return ir::cast(g_, value, t);
}

const Node* LongMath::to(const LongWords& a, DType from, DType to) const {
  if (to == DType::kBool) return op(Op::kCmpNe, op(Op::kOr, a.low, a.high), k(0));
  if (ir::is_float(to)) return to_float(a, from == DType::kI64, to);
  return ir::cast(g_, a.low, to);
}

}  // namespace modeld::codegen
