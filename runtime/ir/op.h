// Ops of the IR and the sets passes speak of. The list itself, in its frozen order, is op.def.
//
// clang-format off
//   op             sources                                      argument, meaning
//   Buffer         flat size (Const)                            ParamArg (unique slot): storage
//   Param          flat size (Const) or Stack of dims           ParamArg (slot >= 0): argument
//   Param          empty Stack                                  ParamArg (kAlu, slot -1): variable
//   Const          none                                         int64 | double | bool | Invalid
//   Range          bound, deps...                               RangeArg: loop 0 .. bound-1
//   Special        bound                                        name: index the hardware counts
//   Sink           roots...                                     none or KernelInfo
//   After          value, deps...                               the value, once deps are done
//   End            body (effect), ranges...                     closes the ranges
//   Call           body (Sink|Program|Linear|Copy), args...     runs the body
//   Linear         calls or instructions...                     in this order
//   Program        Sink[, Linear[, Source[, Binary]]]           ProgramInfo
//   Stack          elements...                                  leading axis; weak ints: a shape
//   Index          buffer or value, indices...                  gated: Where(gate, i, Invalid)
//   Shrink         value, starts, lengths                       movement; in programs a slice
//   Load           Index or Shrink[, alt, gate]                 alt where gate is false
//   Store          Index, Shrink or buffer state, value[, gate] nothing where gate is false
//   Reshape        value, dims                                  movement
//   Expand         value, dims                                  movement: adds leading axes
//   Pad            value, offsets, total sizes                  movement
//   Permute        value                                        vector<int64>: the new order
//   Flip           value                                        vector<int64>: 1 where flipped
//   Reduce         value[, ranges...]                           ReduceArg(op, k): first k axes,
//                                                               after rangeify over the ranges
//   Stage          value, ranges...                             StageArg: materialise over them
//   Cast, BitCast  value                                        none: dtype is the target
//   Copy           value                                        device
//   Wmma           factors (2), accumulator (Stack), loops...   WmmaArg; closes the loops
// clang-format on
//
// Binary and ternary ops broadcast implicitly (right-aligned, size 1 against n).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace modeld::ir {

enum class Op : uint8_t {
#define OP(name, arity) k##name,
#include "runtime/ir/op.def"
#undef OP
};

inline constexpr int kOpCount = 0
#define OP(name, arity) +1
#include "runtime/ir/op.def"
#undef OP
    ;

const char* op_name(Op op);  // "reduce"
std::optional<Op> op_from_name(std::string_view name);
int op_arity(Op op);  // -1 = any

// A set of ops as a bit mask (two words).
class OpSet {
 public:
  constexpr OpSet() = default;
  constexpr OpSet(std::initializer_list<Op> ops) {
    for (Op op : ops) add(op);
  }
  constexpr void add(Op op) {
    words_[static_cast<int>(op) / 64] |= uint64_t{1} << (static_cast<int>(op) % 64);
  }
  constexpr bool has(Op op) const {
    return (words_[static_cast<int>(op) / 64] >> (static_cast<int>(op) % 64)) & 1;
  }
  constexpr OpSet operator|(const OpSet& o) const {
    OpSet r;
    r.words_[0] = words_[0] | o.words_[0];
    r.words_[1] = words_[1] | o.words_[1];
    return r;
  }
  constexpr bool contains_all(const OpSet& o) const {
    return (o.words_[0] & ~words_[0]) == 0 && (o.words_[1] & ~words_[1]) == 0;
  }

 private:
  uint64_t words_[2] = {0, 0};
};
static_assert(kOpCount <= 128);

inline constexpr OpSet kUnaryOps = {Op::kExp2,       Op::kLog2, Op::kSin,  Op::kSqrt,
                                    Op::kReciprocal, Op::kNeg,  Op::kTrunc};
inline constexpr OpSet kBinaryOps = {
    Op::kAdd,      Op::kMul,      Op::kShl,   Op::kShr,   Op::kCDiv,  Op::kCMod, Op::kFloorDiv,
    Op::kFloorMod, Op::kMax,      Op::kCmpLt, Op::kCmpNe, Op::kCmpEq, Op::kXor,  Op::kOr,
    Op::kAnd,      Op::kThreefry, Op::kSub,   Op::kFDiv,  Op::kPow};
inline constexpr OpSet kTernaryOps = {Op::kWhere, Op::kMulAcc};
inline constexpr OpSet kAluOps = kUnaryOps | kBinaryOps | kTernaryOps;
inline constexpr OpSet kElementwiseOps = kAluOps | OpSet{Op::kCast, Op::kBitCast};
inline constexpr OpSet kCommutativeOps = {Op::kAdd,   Op::kMul, Op::kMax, Op::kCmpNe,
                                          Op::kCmpEq, Op::kXor, Op::kAnd, Op::kOr};
inline constexpr OpSet kAssociativeOps = {Op::kAdd, Op::kMul, Op::kAnd, Op::kOr, Op::kMax};
inline constexpr OpSet kIdempotentOps = {Op::kOr, Op::kAnd, Op::kMax};
inline constexpr OpSet kReduceOps = {Op::kAdd, Op::kMul, Op::kMax};
inline constexpr OpSet kComparisonOps = {Op::kCmpLt, Op::kCmpNe, Op::kCmpEq};
inline constexpr OpSet kBroadcastableOps = kBinaryOps | kTernaryOps;
inline constexpr OpSet kMovementOps = {Op::kReshape, Op::kPermute, Op::kFlip,
                                       Op::kExpand,  Op::kPad,     Op::kShrink};
inline constexpr OpSet kIrreducibleOps = {Op::kConst, Op::kSpecial, Op::kRange, Op::kParam,
                                          Op::kGetAddr};

}  // namespace modeld::ir
