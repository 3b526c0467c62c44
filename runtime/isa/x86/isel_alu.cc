#include "runtime/ir/derived.h"
#include "runtime/isa/x86/selector.h"

namespace modeld::isa::x86 {

namespace {

// Comparison predicates of vcmpps and the rounding of vroundps (Intel SDM volume 2, CMPPS and
// ROUNDPS).
constexpr int64_t kEqual = 0, kLess = 1, kUnordered = 3, kNotEqual = 4;
constexpr int64_t kTruncate = 11;

uint64_t sign_bit(DType t) {
  return uint64_t{1} << (bits_of(t) - 1);
}

int64_t predicate_of(Op op) {
  return op == Op::kCmpLt ? kLess : op == Op::kCmpEq ? kEqual : kNotEqual;
}

// Names of the four forms of a float instruction: vmaxss, vmaxsd, vmaxps.y, vmaxpd.y.
std::string float_form(const std::string& stem, DType t, int64_t lanes, int64_t bytes) {
  const std::string element = t == DType::kF64 ? "d" : "s";
  if (lanes == 1) return stem + "s" + element;
  return with_width((stem + "p" + element).c_str(), bytes);
}

}  // namespace

const Node* Selector::alu(const Node* n) {
  const int64_t lanes = shapes_.lanes(n);
  if (lanes > 1 && !has_vector_form(shapes_, n)) return bad(n);
  switch (n->op) {
    case Op::kWhere:
      return where(n);
    case Op::kMulAcc:
      return is_wide_float(n->dtype) ? mulacc(n, lanes) : bad(n);
    case Op::kTrunc:
      return is_wide_float(n->dtype) ? trunc(n, lanes) : bad(n);
    case Op::kMax:
      if (is_wide_float(n->dtype)) return max_float(n, lanes);
      break;
    case Op::kNeg:
      if (lanes > 1 || is_wide_float(n->dtype)) return negate(n, lanes);
      break;
    case Op::kCDiv:
    case Op::kCMod:
      return divide(n);
    case Op::kCmpLt:
    case Op::kCmpEq:
    case Op::kCmpNe:
      if (n->src(0)->dtype == DType::kBool && n->op == Op::kCmpNe) break;
      return compare(n);
    default:
      break;
  }
  return lanes == 1 ? scalar_alu(n) : vector_alu(n);
}

// ---- the table ----

const Node* Selector::shift_immediate(const Node* n, int64_t by) {
  const bool wide = bits_of(n->dtype) == 64;
  const char* name = n->op == Op::kShl           ? (wide ? "shl_i.q" : "shl_i.l")
                     : ir::is_unsigned(n->dtype) ? (wide ? "shr_i.q" : "shr_i.l")
                                                 : (wide ? "sar_i.q" : "sar_i.l");
  return extended(n->dtype, ins(g_, n->dtype, name, {get(n->src(0))}, by));
}

// Sums without overwriting an operand.
const Node* Selector::add_address(const Node* n) {
  const auto constant = immediate(n->src(1));
  Address a{get(n->src(0)), constant ? nullptr : get(n->src(1)), 1, constant.value_or(0)};
  return ins_memory(g_, kInsAddress, n->dtype, bits_of(n->dtype) == 64 ? "lea.q" : "lea.l", a);
}

const Node* Selector::scalar_alu(const Node* n) {
  const Pattern* p = find_pattern(n->op, n->dtype);
  if (p == nullptr || p->scalar == nullptr) return bad(n);
  const bool is_int = !is_wide_float(n->dtype);
  if (is_int && n->nsrc == 2) {
    const auto constant = immediate(n->src(1));
    const bool shift = n->op == Op::kShl || n->op == Op::kShr;
    if (shift && constant) return shift_immediate(n, *constant);
    if (n->op == Op::kAdd) return extended(n->dtype, add_address(n));
    if (constant && !shift) {
      std::string name = p->scalar;  // "and.l" -> "and_i.l"
      name.insert(name.find('.'), "_i");
      return extended(n->dtype, ins(g_, n->dtype, name, {get(n->src(0))}, *constant));
    }
  }
  NodeVec src;
  for (const Node* s : n->src()) src.push_back(get(s));
  if (p->shape == Pattern::Shape::kScalarTwice) src.push_back(src[0]);
  return extended(n->dtype, ins(g_, n->dtype, p->scalar, src));
}

const Node* Selector::vector_alu(const Node* n) {
  const int64_t lanes = shapes_.lanes(n);
  const bool is_bool = n->dtype == DType::kBool;
  const int bits = is_bool ? shapes_.mask_bits(n) : bits_of(n->dtype);
  const int64_t size = lanes * bits / 8;
  const Pattern* p = find_pattern(n->op, n->dtype);
  if (p == nullptr || p->vector == nullptr) return bad(n);
  const bool shift = n->op == Op::kShl || n->op == Op::kShr;
  if (const auto by = shift ? immediate(n->src(1)) : std::nullopt) {
    const char* name = n->op == Op::kShl           ? (bits == 64 ? "vpsllq_i" : "vpslld_i")
                       : bits == 64                ? "vpsrlq_i"
                       : ir::is_unsigned(n->dtype) ? "vpsrld_i"
                                                   : "vpsrad_i";
    return ins(g_, n->dtype, with_width(name, size), {vec(n->src(0), lanes, bits)}, *by);
  }
  NodeVec src;
  for (const Node* s : n->src()) src.push_back(vec(s, lanes, bits));
  return ins(g_, n->dtype, with_width(p->vector, size), src);
}

// ---- what takes more than one instruction ----

// a < b or b is NaN ? b : a. The instruction gives its second operand when either is NaN, so a
// constant that is none goes first; else a NaN in b is put back.
const Node* Selector::max_float(const Node* n, int64_t lanes) {
  const DType t = n->dtype;
  const int64_t size = lanes * bits_of(t) / 8;
  const auto in = [&](const Node* s) { return lanes == 1 ? get(s) : vec(s, lanes, 0); };
  const Node* a = in(n->src(0));
  const Node* b = in(n->src(1));
  const std::string name = float_form("vmax", t, lanes, size);
  const Node* most = ins(g_, t, name, {b, a});
  if (is_literal(n->src(1))) return most;
  const Node* nan = ins(g_, t, float_form("vcmp", t, lanes, size), {b, b}, kUnordered);
  return ins(g_, t, with_width(t == DType::kF64 ? "vblendvpd" : "vblendvps", size), {most, b, nan});
}

const Node* Selector::mulacc(const Node* n, int64_t lanes) {
  const int64_t size = lanes * bits_of(n->dtype) / 8;
  const auto in = [&](const Node* s) { return lanes == 1 ? get(s) : vec(s, lanes, 0); };
  // Of three operands one is overwritten: the sum, unless it is a constant that is needed again.
  if (is_literal(n->src(2)))
    return ins(g_, n->dtype, float_form("vfmadd213", n->dtype, lanes, size),
               {in(n->src(0)), in(n->src(1)), in(n->src(2))});
  return ins(g_, n->dtype, float_form("vfmadd231", n->dtype, lanes, size),
             {in(n->src(2)), in(n->src(0)), in(n->src(1))});
}

const Node* Selector::negate(const Node* n, int64_t lanes) {
  const DType t = n->dtype;
  const int64_t size = lanes == 1 ? 16 : lanes * bits_of(t) / 8;
  const Node* x = lanes == 1 ? get(n->src(0)) : vec(n->src(0), lanes, 0);
  if (is_wide_float(t))
    return ins(g_, t, with_width("vxorps", size), {x, pool_vector(t, sign_bit(t), size)});
  const char* name = bits_of(t) == 64 ? "vpsubq" : "vpsubd";
  return ins(g_, t, with_width(name, size), {zero_vector(size), x});
}

const Node* Selector::trunc(const Node* n, int64_t lanes) {
  const std::string name = float_form("vround", n->dtype, lanes, lanes * bits_of(n->dtype) / 8);
  if (lanes > 1) return ins(g_, n->dtype, name, {vec(n->src(0), lanes, 0)}, kTruncate);
  const Node* x = get(n->src(0));
  return ins(g_, n->dtype, name, {x, x}, kTruncate);
}

// Immediate 1: the divisor may be 0 (quotient 0, remainder the dividend) or -1.
const Node* Selector::divide(const Node* n) {
  const DType t = n->dtype;
  if (shapes_.lanes(n) > 1 || !ir::is_int(t)) return bad(n);
  const ir::Bounds d = ir::bounds(g_, n->src(1));
  const bool safe = d.vmin > 0 || d.vmax < -1;
  std::string name = n->op == Op::kCDiv ? "div" : "rem";
  name = (ir::is_unsigned(t) ? "u" : "i") + name + (bits_of(t) == 64 ? ".q" : ".l");
  return extended(t, ins(g_, t, name, {get(n->src(0)), get(n->src(1))}, safe ? 0 : 1));
}

// ---- comparisons ----

const Node* Selector::compare_ints(const Node* n) {
  const DType t = n->src(0)->dtype;
  std::string name = n->op == Op::kCmpEq   ? "sete"
                     : n->op == Op::kCmpNe ? "setne"
                     : ir::is_unsigned(t)  ? "setb"
                                           : "setl";
  const std::string width = bits_of(t) == 64 ? ".q" : ".l";
  const Node* a = get(n->src(0));
  if (const auto constant = immediate(n->src(1)))
    return ins(g_, DType::kBool, name + "_i" + width, {a}, *constant);
  return ins(g_, DType::kBool, name + width, {a, get(n->src(1))});
}

// All ones where the comparison of floats holds, in a vector register.
const Node* Selector::float_mask(const Node* n, int64_t lanes) {
  const DType t = n->src(0)->dtype;
  const auto in = [&](const Node* s) { return lanes == 1 ? get(s) : vec(s, lanes, 0); };
  return ins(g_, DType::kBool, float_form("vcmp", t, lanes, lanes * bits_of(t) / 8),
             {in(n->src(0)), in(n->src(1))}, predicate_of(n->op));
}

const Node* Selector::vector_compare(const Node* n, int64_t lanes) {
  const DType t = n->src(0)->dtype;
  if (is_wide_float(t)) return float_mask(n, lanes);
  const bool is_bool = t == DType::kBool;
  const int bits = is_bool ? shapes_.mask_bits(n) : bits_of(t);
  const int64_t size = lanes * bits / 8;
  const Node* a = vec(n->src(0), lanes, bits);
  const Node* b = vec(n->src(1), lanes, bits);
  const DType word = bits == 64 ? DType::kU64 : DType::kU32;
  if (n->op == Op::kCmpLt) {
    if (ir::is_unsigned(t)) {  // order of signed numbers after the sign is turned
      const Node* sign = pool_vector(word, sign_bit(word), size);
      a = ins(g_, t, with_width("vpxor", size), {a, sign});
      b = ins(g_, t, with_width("vpxor", size), {b, sign});
    }
    const char* name = bits == 64 ? "vpcmpgtq" : "vpcmpgtd";
    return ins(g_, DType::kBool, with_width(name, size), {b, a});
  }
  const char* name = bits == 64 ? "vpcmpeqq" : "vpcmpeqd";
  const Node* equal = ins(g_, DType::kBool, with_width(name, size), {a, b});
  if (n->op == Op::kCmpEq) return equal;
  return ins(g_, DType::kBool, with_width("vpxor", size),
             {equal, pool_vector(word, bits == 64 ? ~uint64_t{0} : 0xffffffff, size)});
}

const Node* Selector::compare(const Node* n) {
  const int64_t lanes = shapes_.lanes(n);
  if (lanes > 1) return vector_compare(n, lanes);
  if (!ir::is_float(n->src(0)->dtype)) return compare_ints(n);
  if (!is_wide_float(n->src(0)->dtype)) return bad(n);
  const Node* low = ins(g_, DType::kBool, "vmovd_r", {float_mask(n, 1)});
  return ins(g_, DType::kBool, "and_i.l", {low}, 1);
}

// ---- selection ----

// A vector register whose lanes (the low one for scalars) have their top bit set where the
// condition holds.
const Node* Selector::mask_of(const Node* condition, DType t, int64_t lanes) {
  const int bits = bits_of(t);
  if (lanes > 1) return vec(condition, lanes, bits);
  const bool compares =
      ir::kComparisonOps.has(condition->op) && is_wide_float(condition->src(0)->dtype);
  if (compares && bits_of(condition->src(0)->dtype) == bits) return float_mask(condition, 1);
  const Node* c = get(condition);
  if (bits == 64)
    return ins(g_, DType::kBool, "vpsllq_i.x", {ins(g_, DType::kBool, "vmovq", {c})}, 63);
  return ins(g_, DType::kBool, "vpslld_i.x", {ins(g_, DType::kBool, "vmovd", {c})}, 31);
}

const Node* Selector::where(const Node* n) {
  const int64_t lanes = shapes_.lanes(n);
  const DType t = n->dtype;
  if (lanes == 1 && !is_wide_float(t))
    return ins(g_, t, "select.q", {get(n->src(2)), get(n->src(1)), get(n->src(0))});
  const int64_t size = lanes == 1 ? 16 : lanes * bits_of(t) / 8;
  const auto in = [&](const Node* s) { return lanes == 1 ? get(s) : vec(s, lanes, 0); };
  return ins(g_, t, with_width(bits_of(t) == 64 ? "vblendvpd" : "vblendvps", size),
             {in(n->src(2)), in(n->src(1)), mask_of(n->src(0), t, lanes)});
}

}  // namespace modeld::isa::x86
