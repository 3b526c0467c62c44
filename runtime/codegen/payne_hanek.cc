// Reduction of a huge f64 argument by pi/2 (Payne and Hanek's method): only the bits of 2/pi that
// matter modulo four quarter turns are multiplied with the mantissa, in integers.
#include <array>
#include <vector>

#include "runtime/codegen/decompositions.h"

namespace modeld::codegen {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

// 2/pi in 32-bit words, two zero words in front: bit 63 of the string weighs 1.
constexpr int64_t kTwoOverPi[] = {
    0,          0,          0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041,
    0xfe5163ab, 0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e,
    0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b,
    0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d,
    0x7527bac7, 0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046};
constexpr size_t kKept = 6;  // 192 bits: 2 of whole quarter turns, 62 that may cancel, 128 more

struct Words {
  Graph& g;
  const Node* k(int64_t v) const { return ir::const_int(g, v, DType::kU64); }
  const Node* op(Op o, const Node* a, const Node* b) const { return ir::alu(g, o, {a, b}); }
  const Node* low(const Node* a) const { return op(Op::kAnd, a, k(0xffffffff)); }
  const Node* high(const Node* a) const { return op(Op::kShr, a, k(32)); }
};

// kKept + 1 words from word `first` on, first <= 32: a shift by each bit of `first` in turn.
NodeVec window(const Words& w, const Node* first) {
  NodeVec words;
  for (const int64_t v : kTwoOverPi) words.push_back(w.k(v));
  for (int bit = 5; bit >= 0; --bit) {
    const size_t by = size_t{1} << bit;
    const Node* is_set = w.op(Op::kCmpNe, w.op(Op::kAnd, first, w.k(int64_t{1} << bit)), w.k(0));
    const size_t count = kKept + by;  // what the bits below may still reach
    NodeVec shifted;
    for (size_t i = 0; i < count; ++i) {
      const Node* here = i < words.size() ? words[i] : w.k(0);
      const Node* there = i + by < words.size() ? words[i + by] : w.k(0);
      shifted.push_back(ir::where(w.g, is_set, there, here));
    }
    words = std::move(shifted);
  }
  return words;
}

// The low 192 bits of a two-word number times six words; most significant word first.
NodeVec product(const Words& w, const Node* high, const Node* low, const NodeVec& v) {
  NodeVec out(kKept);
  const Node* carry = w.k(0);
  for (size_t p = kKept; p-- > 0;) {
    const Node* t = w.op(Op::kAdd, w.op(Op::kMul, low, v[p]), carry);
    out[p] = w.low(t);
    carry = w.high(t);
  }
  carry = w.k(0);
  for (size_t p = kKept; p-- > 1;) {
    const Node* t = w.op(Op::kAdd, w.op(Op::kMul, high, v[p]), w.op(Op::kAdd, out[p - 1], carry));
    out[p - 1] = w.low(t);
    carry = w.high(t);
  }
  return out;
}

}  // namespace

QuarterTurns reduce_huge(Graph& g, const Node* a) {
  const Words w{g};
  const Node* raw = g.make(Op::kBitCast, DType::kU64, {a});
  const Node* mantissa =
      w.op(Op::kOr, w.op(Op::kAnd, raw, w.k((int64_t{1} << 52) - 1)), w.k(int64_t{1} << 52));
  // a = mantissa * 2^E, E = exponent - 1075. Bits of 2/pi above 2^(1 - E) give multiples of four:
  // the string is needed from bit E + 62 on.
  const Node* exponent = w.op(Op::kAnd, w.op(Op::kShr, raw, w.k(52)), w.k(0x7ff));
  const Node* is_huge = ir::lt(g, w.k(1042), exponent);
  const Node* skip = w.op(Op::kSub, ir::where(g, is_huge, exponent, w.k(1043)), w.k(1013));
  const Node* first = w.op(Op::kAnd, w.op(Op::kShr, skip, w.k(5)), w.k(63));
  const Node* shift = w.op(Op::kAnd, skip, w.k(31));
  const NodeVec words = window(w, first);
  NodeVec v;
  for (size_t i = 0; i < kKept; ++i) {
    const Node* both = w.op(Op::kOr, w.op(Op::kShl, words[i], w.k(32)), words[i + 1]);
    v.push_back(w.low(w.op(Op::kShr, both, w.op(Op::kSub, w.k(32), shift))));
  }
  const NodeVec r = product(w, w.high(mantissa), w.low(mantissa), v);
  // Two bits of whole quarter turns, then the fraction; the nearest whole number is taken off.
  const Node* quadrant = w.op(Op::kShr, w.op(Op::kAdd, r[0], w.k(0x20000000)), w.k(30));
  const Node* rest = w.op(Op::kSub, r[0], w.op(Op::kShl, quadrant, w.k(30)));
  const Node* top = ir::cast(g, w.op(Op::kOr, w.op(Op::kShl, rest, w.k(32)), r[1]), DType::kI64);
  const auto real = [&](const Node* n) { return ir::cast(g, n, DType::kF64); };
  const auto scaled = [&](const Node* n, double by) {
    return ir::mul(g, n, ir::const_of(g, DType::kF64, by));
  };
  // What the 53 bits of `coarse` lose of the 62 of `top` is exact in `fine`.
  const Node* coarse = real(top);
  const Node* fine = real(ir::alu(g, Op::kSub, {top, ir::cast(g, coarse, DType::kI64)}));
  const Node* tail = ir::add(g, real(ir::cast(g, r[2], DType::kI64)),
                             scaled(real(ir::cast(g, r[3], DType::kI64)), 0x1p-32));
  const Node* below = ir::add(g, scaled(fine, 0x1p-62), scaled(tail, 0x1p-94));
  return {ir::cast(g, quadrant, DType::kI32), scaled(coarse, 0x1p-62), below};
}

}  // namespace modeld::codegen
