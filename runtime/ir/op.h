// Ops of the IR and the sets passes speak of. The list itself, in its frozen order, is op.def.
//
// Sources and arguments (s = sources):
//   Buffer   s0 = flat size (Const); arg ParamArg (slot = unique id)      storage
//   Param    s0 = flat size or Stack of dims; arg ParamArg                formal argument (slot >=
//   0), or scalar
//                                                                         variable (addrspace kAlu,
//                                                                         slot -1, no size: s0 =
//                                                                         empty Stack)
//   Const    arg int64 | double | bool | Invalid                          value of dtype
//   Range    s0 = bound, deps...; arg RangeArg                            loop variable 0..bound-1,
//   dtype kWeakInt Special  s0 = bound; arg name                                         hardware
//   index Sink     roots; arg none or KernelInfo                                After: value,
//   deps... passes s0 through End      s0 = body (effect), ranges... closes ranges Call     s0 =
//   body (Sink | Program | Linear | Copy), args...          Linear: calls or instructions Program
//   Sink[, Linear[, Source[, Binary]]]; arg ProgramInfo Stack    elements: adds a leading axis; of
//   weakint consts = a shape   (empty Stack: dtype kVoid) Index    s0 = buffer or value, indices...
//   element (or sub view); gated as Where(cond, idx, Invalid) Shrink   s0, starts, lengths
//   movement; in programs a contiguous vector slice of a buffer Load     s0 = Index/Shrink [, alt,
//   gate]       Store  s0 = Index/Shrink or buffer state, value [, gate] Reshape  s0, s1 = dims
//   Expand s0, s1 = dims: adds LEADING axes   Pad s0, s1 = offsets, s2 = total sizes Permute/Flip
//   arg vector<int64>                                        Flip: 1 per flipped axis Reduce   s0
//   [, ranges...]; arg ReduceArg(op, k): reduces the FIRST k axes; after rangeify k = 0 and s1..
//   are ranges Stage    value, ranges...; arg StageArg                               "materialise
//   over these ranges" Cast/BitCast arg none (the node's dtype is the target) Copy     s0; arg
//   device string
//   Wmma     s0, s1 = factors, s2 = accumulator (a Stack), loops it closes...; arg WmmaArg
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
