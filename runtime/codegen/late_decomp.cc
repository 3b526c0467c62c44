// late_decomp. Needs concrete types, widened floats. Gives: only ops the renderer has: shifts for
// powers of two, division by constants, transcendentals as polynomials, the shorter compare and
// subtract forms, MULACC where it exists and contraction is allowed.
#include <bit>

#include "runtime/codegen/decompositions.h"
#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::DType;
using ir::Op;

int log2_exact(const Node* n) {
  const auto v = ir::int_value(n);
  if (!v || *v <= 1 || !std::has_single_bit(static_cast<uint64_t>(*v))) return -1;
  return std::countr_zero(static_cast<uint64_t>(*v));
}

bool is_not(const Node* n) {
  return n->op == Op::kCmpNe && n->src(0)->dtype == DType::kBool && ir::is_int_const(n->src(1), 1);
}

// x * 2^k -> x << k; x * -1 -> -x.
const Node* mul_forms(Graph& g, const Node* n) {
  const Node* a = n->src(0);
  const Node* b = n->src(1);
  if (const auto v = ir::num_value(b); v && *v == -1) return g.make(Op::kNeg, n->dtype, {a});
  const int k = log2_exact(b);
  if (ir::is_int(n->dtype) && k > 0) {
    return ir::alu(g, Op::kShl, {a, ir::const_int(g, k, n->dtype)});
  }
  // a * (1 / b) rounds twice, a / b once.
  for (size_t i = 0; i < 2; ++i) {
    if (n->src(i)->op == Op::kReciprocal) {
      return ir::alu(g, Op::kFDiv, {n->src(1 - i), n->src(i)->src(0)});
    }
  }
  return nullptr;
}

const Node* reciprocal(Graph& g, const Node* n) {
  return ir::alu(g, Op::kFDiv, {ir::const_of(g, n->dtype, 1), n->src(0)});
}

// Truncating division by 2^k.
const Node* div_shift(Graph& g, const Node* n) {
  const Node* x = n->src(0);
  const int k = log2_exact(n->src(1));
  if (k < 1) return nullptr;
  const Node* by = ir::const_int(g, k, n->dtype);
  if (ir::is_unsigned(n->dtype) || ir::vmin(g, x) >= 0) return ir::alu(g, Op::kShr, {x, by});
  const Node* zero = ir::const_int(g, 0, n->dtype);
  const Node* bias =
      ir::where(g, ir::lt(g, x, zero), ir::const_int(g, (int64_t{1} << k) - 1, n->dtype), zero);
  return ir::alu(g, Op::kShr, {ir::add(g, x, bias), by});
}

const Node* add_forms(Graph& g, const Node* n) {
  for (size_t i = 2; i-- > 0;) {
    if (n->src(i)->op == Op::kNeg) {
      return ir::alu(g, Op::kSub, {n->src(1 - i), n->src(i)->src(0)});
    }
  }
  return nullptr;
}

const Node* not_forms(Graph& g, const Node* n) {
  if (!is_not(n)) return nullptr;
  const Node* c = n->src(0);
  if (c->op == Op::kCmpNe && c->src(0)->dtype != DType::kBool) {
    return ir::alu(g, Op::kCmpEq, {c->src(0), c->src(1)});
  }
  const auto v = c->op == Op::kCmpLt ? ir::int_value(c->src(1)) : std::nullopt;
  const bool integer = v && !ir::is_float(c->src(0)->dtype);
  if (integer && *v > ir::int_min(c->src(0)->dtype)) {
    return ir::lt(g, ir::const_int(g, *v - 1, c->src(0)->dtype), c->src(0));
  }
  return nullptr;
}

// Arithmetic of bools as logic: a vector of them is a mask on every target, not numbers.
const Node* bool_forms(Graph& g, const Node* n) {
  const Node* a = n->src(0);
  const Node* b = n->src(1);
  if (a->dtype != DType::kBool) return nullptr;
  if (n->op == Op::kCmpLt) return ir::land(g, ir::logical_not(g, a), b);
  return ir::alu(g, n->op == Op::kMul ? Op::kAnd : Op::kOr, {a, b});
}

const Node* mulacc(Graph& g, const Node* n) {
  if (!ir::is_float(n->dtype)) return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    const Node* m = n->src(i);
    if (m->op != Op::kMul) continue;
    return g.make(Op::kMulAcc, n->dtype, {m->src(0), m->src(1), n->src(1 - i)});
  }
  return nullptr;
}

// Out of range floats convert through a type that holds them, so that every vector width wraps
// the same way.
const Node* narrow_cast(Graph& g, const Node* n) {
  if (!ir::is_float(n->src(0)->dtype) || ir::is_float(n->dtype)) return nullptr;
  const int bits = ir::item_bits(n->dtype);
  if (n->dtype == DType::kBool) {
    return ir::alu(g, Op::kCmpNe, {n->src(0), ir::const_of(g, n->src(0)->dtype, 0)});
  }
  if (bits < 32) return ir::cast(g, ir::cast(g, n->src(0), DType::kI32), n->dtype);
  if (n->dtype == DType::kU32) return ir::cast(g, ir::cast(g, n->src(0), DType::kI64), n->dtype);
  return nullptr;
}

// Renderers have their own transcendentals in f32 only.
template <const Node* (*kDecompose)(Graph&, const Node*)>
const Node* unless_f32(Graph& g, const Node* n) {
  return n->dtype == DType::kF32 ? nullptr : kDecompose(g, n);
}

}  // namespace

const Node* late_decomp(Graph& g, const Node* root, const CodegenOptions& o) {
  ir::RuleSet rules;
  rules.on({Op::kExp2}, "exp2", o.caps.has_exp2 ? unless_f32<decompose_exp2> : decompose_exp2);
  rules.on({Op::kLog2}, "log2", o.caps.has_log2 ? unless_f32<decompose_log2> : decompose_log2);
  rules.on({Op::kSin}, "sin", o.caps.has_sin ? unless_f32<decompose_sin> : decompose_sin);
  if (!o.caps.has_trunc) rules.on({Op::kTrunc}, "trunc", decompose_trunc);
  rules.on({Op::kAdd, Op::kMul, Op::kMax, Op::kCmpLt}, "bool forms", bool_forms);
  rules.on({Op::kMul}, "mul forms", mul_forms);
  rules.on({Op::kCDiv}, "div shift", div_shift);
  if (o.fast_idiv) rules.on({Op::kCDiv, Op::kCMod}, "fast division", fast_division);
  rules.on({Op::kReciprocal}, "reciprocal", reciprocal);
  rules.on({Op::kAdd}, "add forms", add_forms);
  rules.on({Op::kCmpNe}, "not forms", not_forms);
  rules.on({Op::kCast}, "narrow cast", narrow_cast);
  root = ir::rewrite(g, root, rules);
  if (!o.caps.has_mulacc || o.no_contract || g.failed()) return root;
  // After the rest: a product that became a shift or a quotient is no longer one.
  ir::RuleSet fused;
  fused.on({Op::kAdd}, "mulacc", mulacc);
  return ir::rewrite(g, root, fused);
}

}  // namespace modeld::codegen
