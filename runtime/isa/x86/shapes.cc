#include "runtime/isa/x86/shapes.h"

#include <algorithm>

namespace modeld::isa::x86 {

using ir::DType;
using ir::Node;
using ir::Op;

const Node* memory_of(const Node* n) {
  while (n->op == Op::kAfter || n->op == Op::kIndex || n->op == Op::kShrink) n = n->src(0);
  const bool storage = n->op == Op::kBuffer || n->op == Op::kParam;
  return storage && n->as<ir::ParamArg>().addrspace != ir::AddrSpace::kAlu ? n : nullptr;
}

bool is_register_buffer(const Node* buffer) {
  return buffer->as<ir::ParamArg>().addrspace == ir::AddrSpace::kReg;
}

int64_t Shapes::lanes(const Node* n) {
  if (const auto it = lanes_.find(n); it != lanes_.end()) return it->second;
  int64_t out = 1;
  if (n->op == Op::kStack) out = std::max<int64_t>(n->nsrc, 1);
  if (n->op == Op::kLoad && n->src(0)->op == Op::kShrink)
    out = ir::int_value(n->src(0)->src(2)).value_or(1);
  if (ir::kElementwiseOps.has(n->op))
    for (const Node* s : n->src()) out = std::max(out, lanes(s));
  lanes_[n] = out;
  return out;
}

int Shapes::mask_bits(const Node* n) {
  if (const auto it = masks_.find(n); it != masks_.end()) return it->second;
  int out = lanes(n) == 2 ? 64 : 32;
  if (ir::kElementwiseOps.has(n->op) && n->op != Op::kCast) {
    int found = -1;
    for (const Node* s : n->src()) {
      if (lanes(s) == 1) continue;
      const int bits = s->dtype == DType::kBool ? mask_bits(s) : ir::item_bits(s->dtype);
      found = found < 0 || found == bits ? bits : 0;
    }
    out = found;
  }
  masks_[n] = out;
  return out;
}

bool is_vector_shape(DType t, int64_t lanes) {
  if (t == DType::kBool) return false;
  const int64_t bits = lanes * ir::item_bits(t);
  if (ir::item_bits(t) >= 32) return bits == 128 || bits == 256;
  return lanes == 4 || lanes == 8;
}

namespace {

bool is_wide_float(DType t) {
  return t == DType::kF32 || t == DType::kF64;
}
bool is_word(DType t) {
  return t == DType::kI32 || t == DType::kU32;
}
bool is_narrow_int(DType t) {
  return ir::is_int(t) && ir::item_bits(t) < 32;
}

bool has_vector_cast(Shapes& shapes, const Node* n) {
  const Node* s = n->src(0);
  const DType from = s->dtype;
  const DType to = n->dtype;
  const int64_t lanes = shapes.lanes(n);
  if (from == DType::kBool) {
    const bool to_mask_size = ir::item_bits(to) == shapes.mask_bits(s) && to != DType::kBool;
    return to_mask_size && is_vector_shape(to, lanes);
  }
  if (!is_vector_shape(from, lanes) || !is_vector_shape(to, lanes)) return false;
  if (from == to) return true;
  if (is_wide_float(from) && is_wide_float(to)) return true;
  if (from == DType::kF16 || to == DType::kF16) return from == DType::kF32 || to == DType::kF32;
  if (is_wide_float(from)) return to == DType::kI32;
  if (is_wide_float(to)) return from == DType::kI32;
  if (!ir::is_int(from) || !ir::is_int(to)) return false;
  if (ir::item_bits(from) == ir::item_bits(to)) return true;
  if (is_word(to)) return is_narrow_int(from);
  if (is_word(from)) return is_narrow_int(to) || ir::item_bits(to) == 64;
  return false;
}

bool has_vector_compare(Shapes& shapes, const Node* n) {
  const DType t = n->src(0)->dtype;
  if (t == DType::kBool) return n->op != Op::kCmpLt && shapes.mask_bits(n) != 0;
  if (!is_vector_shape(t, shapes.lanes(n))) return false;
  if (is_wide_float(t) || is_word(t) || t == DType::kI64) return true;
  return t == DType::kU64 && n->op != Op::kCmpLt;
}

bool has_vector_where(Shapes& shapes, const Node* n) {
  if (!is_vector_shape(n->dtype, shapes.lanes(n)) || ir::item_bits(n->dtype) < 32) return false;
  const Node* c = n->src(0);
  return shapes.lanes(c) == 1 || shapes.mask_bits(c) == ir::item_bits(n->dtype);
}

}  // namespace

bool has_vector_form(Shapes& shapes, const Node* n) {
  const DType t = n->dtype;
  const int64_t lanes = shapes.lanes(n);
  if (n->op == Op::kCast) return has_vector_cast(shapes, n);
  if (ir::kComparisonOps.has(n->op)) return has_vector_compare(shapes, n);
  if (n->op == Op::kWhere) return has_vector_where(shapes, n);
  static constexpr ir::OpSet kBits = {Op::kAnd, Op::kOr, Op::kXor};
  if (t == DType::kBool) return kBits.has(n->op) && shapes.mask_bits(n) != 0;
  if (!is_vector_shape(t, lanes)) return false;
  if (n->op == Op::kBitCast) return is_vector_shape(n->src(0)->dtype, lanes);
  static constexpr ir::OpSet kFloat = {Op::kAdd, Op::kSub,  Op::kMul,   Op::kFDiv,  Op::kMax,
                                       Op::kNeg, Op::kSqrt, Op::kTrunc, Op::kMulAcc};
  static constexpr ir::OpSet kWord = {Op::kAdd, Op::kSub, Op::kMul, Op::kMax, Op::kNeg,
                                      Op::kAnd, Op::kOr,  Op::kXor, Op::kShl, Op::kShr};
  static constexpr ir::OpSet kLong = {Op::kAdd, Op::kSub, Op::kNeg, Op::kAnd,
                                      Op::kOr,  Op::kXor, Op::kShl};
  static constexpr ir::OpSet kNarrow = {Op::kAdd, Op::kSub, Op::kMax, Op::kAnd, Op::kOr, Op::kXor};
  if (is_wide_float(t)) return kFloat.has(n->op);
  if (is_narrow_int(t)) return kNarrow.has(n->op);
  if (is_word(t)) return kWord.has(n->op);
  if (ir::item_bits(t) == 64) return kLong.has(n->op) || (t == DType::kU64 && n->op == Op::kShr);
  return false;
}

}  // namespace modeld::isa::x86
