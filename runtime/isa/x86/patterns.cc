#include "runtime/isa/x86/patterns.h"

#include <algorithm>
#include <iterator>

namespace modeld::isa::x86 {

using ir::DType;
using ir::Op;
using Shape = Pattern::Shape;

namespace {

// Integers below 32 bits without a row of their own use those of 32 bits; as scalars they are
// extended again afterwards.
constexpr Pattern kPatterns[] = {
    {Op::kAdd, DType::kF32, "vaddss", "vaddps", Shape::kBinary},
    {Op::kSub, DType::kF32, "vsubss", "vsubps", Shape::kBinary},
    {Op::kMul, DType::kF32, "vmulss", "vmulps", Shape::kBinary},
    {Op::kFDiv, DType::kF32, "vdivss", "vdivps", Shape::kBinary},
    {Op::kSqrt, DType::kF32, "vsqrtss", "vsqrtps", Shape::kScalarTwice},
    {Op::kAdd, DType::kF64, "vaddsd", "vaddpd", Shape::kBinary},
    {Op::kSub, DType::kF64, "vsubsd", "vsubpd", Shape::kBinary},
    {Op::kMul, DType::kF64, "vmulsd", "vmulpd", Shape::kBinary},
    {Op::kFDiv, DType::kF64, "vdivsd", "vdivpd", Shape::kBinary},
    {Op::kSqrt, DType::kF64, "vsqrtsd", "vsqrtpd", Shape::kScalarTwice},
    {Op::kAdd, DType::kI32, "add.l", "vpaddd", Shape::kBinary},
    {Op::kSub, DType::kI32, "sub.l", "vpsubd", Shape::kBinary},
    {Op::kMul, DType::kI32, "imul.l", "vpmulld", Shape::kBinary},
    {Op::kMax, DType::kI32, nullptr, "vpmaxsd", Shape::kBinary},
    {Op::kAnd, DType::kI32, "and.l", "vpand", Shape::kBinary},
    {Op::kOr, DType::kI32, "or.l", "vpor", Shape::kBinary},
    {Op::kXor, DType::kI32, "xor.l", "vpxor", Shape::kBinary},
    {Op::kShl, DType::kI32, "shlx.l", "vpsllvd", Shape::kBinary},
    {Op::kShr, DType::kI32, "sarx.l", "vpsravd", Shape::kBinary},
    {Op::kNeg, DType::kI32, "neg.l", nullptr, Shape::kUnary},
    {Op::kAdd, DType::kU32, "add.l", "vpaddd", Shape::kBinary},
    {Op::kSub, DType::kU32, "sub.l", "vpsubd", Shape::kBinary},
    {Op::kMul, DType::kU32, "imul.l", "vpmulld", Shape::kBinary},
    {Op::kMax, DType::kU32, nullptr, "vpmaxud", Shape::kBinary},
    {Op::kAnd, DType::kU32, "and.l", "vpand", Shape::kBinary},
    {Op::kOr, DType::kU32, "or.l", "vpor", Shape::kBinary},
    {Op::kXor, DType::kU32, "xor.l", "vpxor", Shape::kBinary},
    {Op::kShl, DType::kU32, "shlx.l", "vpsllvd", Shape::kBinary},
    {Op::kShr, DType::kU32, "shrx.l", "vpsrlvd", Shape::kBinary},
    {Op::kNeg, DType::kU32, "neg.l", nullptr, Shape::kUnary},
    {Op::kAdd, DType::kI64, "add.q", "vpaddq", Shape::kBinary},
    {Op::kSub, DType::kI64, "sub.q", "vpsubq", Shape::kBinary},
    {Op::kMul, DType::kI64, "imul.q", nullptr, Shape::kBinary},
    {Op::kAnd, DType::kI64, "and.q", "vpand", Shape::kBinary},
    {Op::kOr, DType::kI64, "or.q", "vpor", Shape::kBinary},
    {Op::kXor, DType::kI64, "xor.q", "vpxor", Shape::kBinary},
    {Op::kShl, DType::kI64, "shlx.q", "vpsllvq", Shape::kBinary},
    {Op::kShr, DType::kI64, "sarx.q", nullptr, Shape::kBinary},
    {Op::kNeg, DType::kI64, "neg.q", nullptr, Shape::kUnary},
    {Op::kAdd, DType::kU64, "add.q", "vpaddq", Shape::kBinary},
    {Op::kSub, DType::kU64, "sub.q", "vpsubq", Shape::kBinary},
    {Op::kMul, DType::kU64, "imul.q", nullptr, Shape::kBinary},
    {Op::kAnd, DType::kU64, "and.q", "vpand", Shape::kBinary},
    {Op::kOr, DType::kU64, "or.q", "vpor", Shape::kBinary},
    {Op::kXor, DType::kU64, "xor.q", "vpxor", Shape::kBinary},
    {Op::kShl, DType::kU64, "shlx.q", "vpsllvq", Shape::kBinary},
    {Op::kShr, DType::kU64, "shrx.q", "vpsrlvq", Shape::kBinary},
    {Op::kNeg, DType::kU64, "neg.q", nullptr, Shape::kUnary},
    {Op::kAdd, DType::kI8, "add.l", "vpaddb", Shape::kBinary},
    {Op::kSub, DType::kI8, "sub.l", "vpsubb", Shape::kBinary},
    {Op::kMax, DType::kI8, nullptr, "vpmaxsb", Shape::kBinary},
    {Op::kAdd, DType::kU8, "add.l", "vpaddb", Shape::kBinary},
    {Op::kSub, DType::kU8, "sub.l", "vpsubb", Shape::kBinary},
    {Op::kMax, DType::kU8, nullptr, "vpmaxub", Shape::kBinary},
    {Op::kAdd, DType::kI16, "add.l", "vpaddw", Shape::kBinary},
    {Op::kSub, DType::kI16, "sub.l", "vpsubw", Shape::kBinary},
    {Op::kMax, DType::kI16, nullptr, "vpmaxsw", Shape::kBinary},
    {Op::kAdd, DType::kU16, "add.l", "vpaddw", Shape::kBinary},
    {Op::kSub, DType::kU16, "sub.l", "vpsubw", Shape::kBinary},
    {Op::kMax, DType::kU16, nullptr, "vpmaxuw", Shape::kBinary},
    {Op::kAnd, DType::kBool, "and.l", "vpand", Shape::kBinary},
    {Op::kOr, DType::kBool, "or.l", "vpor", Shape::kBinary},
    {Op::kXor, DType::kBool, "xor.l", "vpxor", Shape::kBinary},
    {Op::kCmpNe, DType::kBool, "xor.l", "vpxor", Shape::kBinary},
};

}  // namespace

const Pattern* find_pattern(Op op, DType t) {
  const auto find = [op](DType type) {
    const auto* const it =
        std::find_if(std::begin(kPatterns), std::end(kPatterns),
                     [&](const Pattern& p) { return p.op == op && p.type == type; });
    return it == std::end(kPatterns) ? nullptr : it;
  };
  const Pattern* own = find(t);
  if (own != nullptr || !ir::is_int(t) || ir::item_bits(t) >= 32) return own;
  return find(ir::is_unsigned(t) ? DType::kU32 : DType::kI32);
}

Access scalar_access(DType t) {
  switch (t) {
    case DType::kF32:
      return {"vmovss", "vmovss_st"};
    case DType::kF64:
      return {"vmovsd", "vmovsd_st"};
    case DType::kI8:
      return {"movsxb.l", "mov_st.b"};
    case DType::kBool:
    case DType::kU8:
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz:
    case DType::kF8E5M2:
    case DType::kF8E5M2Fnuz:
      return {"movzxb.l", "mov_st.b"};
    case DType::kI16:
      return {"movsxw.l", "mov_st.w"};
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16:
      return {"movzxw.l", "mov_st.w"};
    case DType::kI32:
    case DType::kU32:
      return {"mov.l", "mov_st.l"};
    default:
      return {"mov.q", "mov_st.q"};
  }
}

Access vector_access(int64_t bytes) {
  switch (bytes) {
    case 4:
      return {"vmovss", "vmovss_st"};
    case 8:
      return {"vmovsd", "vmovsd_st"};
    case 16:
      return {"vmovups.x", "vmovups_st.x"};
    default:
      return {"vmovups.y", "vmovups_st.y"};
  }
}

}  // namespace modeld::isa::x86
