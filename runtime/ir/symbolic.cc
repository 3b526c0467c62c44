#include "runtime/ir/symbolic.h"

#include <algorithm>
#include <numeric>

#include "runtime/ir/derived.h"
#include "runtime/ir/sum_form.h"

namespace modeld::ir {
namespace {

bool is_zero(const Node* n) {
  const auto v = num_value(n);
  return v && *v == 0 && n->dtype != DType::kBool;
}
bool is_one(const Node* n) {
  const auto v = num_value(n);
  return v && *v == 1 && n->dtype != DType::kBool;
}
bool is_true(const Node* n) {
  return n->dtype == DType::kBool && is_int_const(n, 1);
}
bool is_false(const Node* n) {
  return n->dtype == DType::kBool && is_int_const(n, 0);
}
bool is_gated(const Node* n) {
  return n->op == Op::kWhere && is_invalid(n->src(2));
}
bool is_not(const Node* n) {
  return n->op == Op::kCmpNe && is_true(n->src(1)) && n->src(0)->dtype == DType::kBool;
}

// ---- Invalid: before everything else, because x*0 must not delete it ----

const Node* push_into_gate(Graph& g, const Node* n) {
  if (n->op == Op::kWhere) return nullptr;
  for (size_t i = 0; i < n->nsrc; ++i) {
    const Node* s = n->src(i);
    if (is_invalid(s)) return const_invalid(g, n->dtype);
    if (!is_gated(s)) continue;
    NodeVec src(n->src().begin(), n->src().end());
    src[i] = s->src(1);
    const Node* inner = g.with_src(n, src);
    return g.make(Op::kWhere, n->dtype, {s->src(0), inner, const_invalid(g, n->dtype)});
  }
  return nullptr;
}

const Node* gate_where(Graph& g, const Node* n) {
  const Node* c = n->src(0);
  if (is_invalid(n->src(1)) && is_invalid(n->src(2))) return n->src(1);
  if (is_invalid(n->src(1)))
    return g.make(Op::kWhere, n->dtype, {logical_not(g, c), n->src(2), n->src(1)});
  if (is_invalid(n->src(2)) && is_gated(n->src(1))) {
    return g.make(Op::kWhere, n->dtype,
                  {land(g, c, n->src(1)->src(0)), n->src(1)->src(1), n->src(2)});
  }
  return nullptr;
}

// ---- identities ----

const Node* add_identity(Graph&, const Node* n) {
  if (is_zero(n->src(1))) return n->src(0);
  if (is_zero(n->src(0))) return n->src(1);
  return nullptr;
}

const Node* mul_identity(Graph&, const Node* n) {
  for (size_t i : {0, 1}) {
    const Node* c = n->src(i);
    const Node* x = n->src(1 - i);
    if (is_one(c)) return x;
    if (!is_float(n->dtype) && n->dtype != DType::kBool && is_zero(c)) return c;
  }
  return nullptr;
}

const Node* bool_arithmetic(Graph& g, const Node* n) {
  if (n->dtype != DType::kBool) return nullptr;
  if (n->op == Op::kMul) return alu(g, Op::kAnd, {n->src(0), n->src(1)});
  return alu(g, Op::kOr, {n->src(0), n->src(1)});  // + and max
}

const Node* sub_identity(Graph& g, const Node* n) {
  if (is_zero(n->src(1))) return n->src(0);
  if (n->src(0) == n->src(1) && !is_float(n->dtype)) return const_int(g, 0, n->dtype);
  return nullptr;
}

const Node* divmod_identity(Graph& g, const Node* n) {
  const Node* d = n->src(1);
  const bool mod = n->op == Op::kCMod || n->op == Op::kFloorMod;
  if (is_int_const(d, 0)) {
    g.fail(Errc::kInvalid, strf("%s: division by zero", op_name(n->op)));
    return nullptr;
  }
  if (is_one(d)) return mod ? const_int(g, 0, n->dtype) : n->src(0);
  const Bounds b = bounds(g, d);
  if (n->src(0) == d && (b.vmin > 0 || b.vmax < 0)) return const_int(g, mod ? 0 : 1, n->dtype);
  return nullptr;
}

const Node* and_identity(Graph& g, const Node* n) {
  if (n->src(0) == n->src(1)) return n->src(0);
  for (size_t i : {0, 1}) {
    const Node* c = n->src(i);
    const Node* x = n->src(1 - i);
    if (is_true(c)) return x;
    if (is_false(c)) return c;
    if (is_not(c) && c->src(0) == x) return const_bool(g, false);
    if (is_int(n->dtype) && is_zero(c)) return c;
  }
  return nullptr;
}

const Node* or_identity(Graph& g, const Node* n) {
  if (n->src(0) == n->src(1)) return n->src(0);
  for (size_t i : {0, 1}) {
    const Node* c = n->src(i);
    const Node* x = n->src(1 - i);
    if (is_false(c) || (is_int(n->dtype) && is_zero(c))) return x;
    if (is_true(c)) return c;
    if (is_not(c) && c->src(0) == x) return const_bool(g, true);
  }
  return nullptr;
}

const Node* xor_identity(Graph& g, const Node* n) {
  if (n->src(0) == n->src(1)) return const_int(g, 0, n->dtype);
  if (is_zero(n->src(1))) return n->src(0);
  return is_zero(n->src(0)) ? n->src(1) : nullptr;
}

const Node* shift_identity(Graph&, const Node* n) {
  return is_zero(n->src(1)) ? n->src(0) : nullptr;
}
const Node* max_identity(Graph&, const Node* n) {
  return n->src(0) == n->src(1) ? n->src(0) : nullptr;
}

const Node* compare_identity(Graph& g, const Node* n) {
  if (n->src(0) == n->src(1) && !is_float(n->src(0)->dtype))
    return const_bool(g, n->op == Op::kCmpEq);
  if (n->src(0)->dtype != DType::kBool) return nullptr;
  if (is_not(n) && is_not(n->src(0))) return n->src(0)->src(0);
  for (size_t i : {0, 1}) {
    if (n->op == Op::kCmpNe && is_false(n->src(i))) return n->src(1 - i);
    if (n->op == Op::kCmpEq && is_true(n->src(i))) return n->src(1 - i);
    if (n->op == Op::kCmpEq && is_false(n->src(i))) return logical_not(g, n->src(1 - i));
  }
  return nullptr;
}

const Node* where_identity(Graph& g, const Node* n) {
  const Node* c = n->src(0);
  const Node* a = n->src(1);
  const Node* b = n->src(2);
  if (a == b) return a;
  if (is_true(c)) return a;
  if (is_false(c)) return b;
  if (is_not(c) && !is_invalid(b)) return g.make(Op::kWhere, n->dtype, {c->src(0), b, a});
  if (n->dtype == DType::kBool) {
    if (is_true(a) && is_false(b)) return c;
    if (is_false(a) && is_true(b)) return logical_not(g, c);
  }
  if (a->op == Op::kWhere && a->src(0) == c) return g.make(Op::kWhere, n->dtype, {c, a->src(1), b});
  if (b->op == Op::kWhere && b->src(0) == c) return g.make(Op::kWhere, n->dtype, {c, a, b->src(2)});
  if (a->op == Op::kWhere && a->src(2) == b)
    return g.make(Op::kWhere, n->dtype, {land(g, c, a->src(0)), a->src(1), b});
  if (b->op == Op::kWhere && b->src(1) == a) {
    return g.make(Op::kWhere, n->dtype, {alu(g, Op::kOr, {c, b->src(0)}), a, b->src(2)});
  }
  return nullptr;
}

// A type whose every value another type holds exactly.
bool holds_all(DType big, DType small) {
  if (big == small || small == DType::kBool) return true;
  if (is_weak(big) || is_weak(small)) return false;
  if (is_int(small) && is_int(big))
    return big != DType::kU64 ? int_min(big) <= int_min(small) && int_max(big) >= int_max(small) &&
                                    small != DType::kU64
                              : is_unsigned(small);
  if (is_int(small)) {
    const int bits = item_bits(small);
    return big == DType::kF64
               ? bits <= 32
               : (big == DType::kF32 ? bits <= 16 : (big == DType::kF16 && bits <= 8));
  }
  if (!is_float(big)) return false;
  const bool is_byte = item_bits(small) == 8;  // every 8-bit float is an f16 and a bf16
  return big == DType::kF64 || (big == DType::kF32 && is_narrow_float(small)) ||
         ((big == DType::kF16 || big == DType::kBF16) && is_byte);
}

const Node* cast_identity(Graph& g, const Node* n) {
  const Node* s = n->src(0);
  if (s->dtype == n->dtype) return s;
  if (n->op == Op::kBitCast)
    return s->op == Op::kBitCast ? g.make(Op::kBitCast, n->dtype, {s->src(0)}) : nullptr;
  if (s->op == Op::kCast && holds_all(s->dtype, s->src(0)->dtype))
    return cast(g, s->src(0), n->dtype);
  if (is_gated(s))
    return g.make(Op::kWhere, n->dtype,
                  {s->src(0), cast(g, s->src(1), n->dtype), const_invalid(g, n->dtype)});
  return nullptr;
}

// ---- facts from intervals ----

const Node* bounds_fold(Graph& g, const Node* n) {
  const bool integer = is_int(n->dtype) || n->dtype == DType::kBool;
  if (!integer || (kComparisonOps.has(n->op) && is_float(n->src(0)->dtype))) return nullptr;
  const Bounds b = bounds(g, n);
  if (n->dtype == DType::kU64 && b.vmax == INT64_MAX) return nullptr;
  return b.vmin == b.vmax ? const_int(g, b.vmin, n->dtype) : nullptr;
}

const Node* max_by_bounds(Graph& g, const Node* n) {
  if (is_float(n->dtype)) return nullptr;
  const Bounds a = bounds(g, n->src(0));
  const Bounds b = bounds(g, n->src(1));
  // The top of a u64 interval stands for everything above.
  const bool is_u64 = n->dtype == DType::kU64;
  if (is_u64 && (a.vmax == INT64_MAX || b.vmax == INT64_MAX)) return nullptr;
  if (a.vmin >= b.vmax) return n->src(0);
  return b.vmin >= a.vmax ? n->src(1) : nullptr;
}

// ---- canonical forms of weak integers ----

const Node* commute(Graph& g, const Node* n) {
  const Node* a = n->src(0);
  const Node* b = n->src(1);
  const bool const_left = is_const(a) && !is_const(b);
  // Weak sums have their own order (canonical_sum).
  if (n->op == Op::kAdd && n->dtype == DType::kWeakInt) return nullptr;
  const bool ordered = n->src(0)->dtype == DType::kWeakInt || n->dtype == DType::kBool;
  if (const_left || (ordered && !is_const(b) && structural_less(b, a)))
    return g.with_src(n, {b, a});
  return nullptr;
}

// (x op c1) op c2 for associative integer ops.
const Node* fold_chain(Graph& g, const Node* n) {
  const Node* a = n->src(0);
  if (is_float(n->dtype) || a->op != n->op || !is_const(n->src(1)) || !is_const(a->src(1)))
    return nullptr;
  const Node* c = fold_const(g, g.with_src(n, {a->src(1), n->src(1)}));
  return c != nullptr ? g.with_src(n, {a->src(0), c}) : nullptr;
}

const Node* sum_rule(Graph& g, const Node* n) {
  if (n->dtype != DType::kWeakInt) return nullptr;
  if (n->op == Op::kMul && !is_const(n->src(1)) && !is_const(n->src(0))) return nullptr;
  if (n->op == Op::kMul && n->src(0)->op != Op::kAdd && n->src(0)->op != Op::kMul &&
      n->src(0)->op != Op::kNeg)
    return nullptr;
  return canonical_sum(g, n);
}

const Node* div_rule(Graph& g, const Node* n) {
  const auto c = int_value(n->src(1));
  if (n->dtype != DType::kWeakInt || !c || *c <= 0) return nullptr;
  return n->op == Op::kFloorDiv ? simplify_div(g, n->src(0), *c) : simplify_mod(g, n->src(0), *c);
}

int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + ((a % b != 0) && ((a < 0) == (b < 0)) ? 1 : 0);
}
// A comparison in one form: sum < limit.
struct Less {
  SumForm sum;
  int64_t limit = 0;
};

// Divisor of a quotient by a positive constant.
std::optional<int64_t> quotient_divisor(const Node* x) {
  const auto q = x->op == Op::kFloorDiv ? int_value(x->src(1)) : std::nullopt;
  return q && *q > 0 ? q : std::nullopt;
}

// The constant and the common factor of the terms go to the limit.
bool normalise_limit(Less& c) {
  if (__builtin_sub_overflow(c.limit, c.sum.constant, &c.limit)) return false;
  c.sum.constant = 0;
  int64_t d = 0;
  for (const auto& t : c.sum.terms) d = std::gcd(d, t.second);
  if (d > 1) {
    for (auto& t : c.sum.terms) t.second /= d;
    c.limit = ceil_div(c.limit, d);
  }
  return c.limit != INT64_MIN;
}

// Multiples of f plus a small rest in [0, f): the rest cannot cross a multiple of f.
void drop_small_part(Graph& g, Less& c) {
  for (const auto& t : c.sum.terms) {
    const int64_t f = t.second < 0 ? -t.second : t.second;
    if (f <= 1 || c.limit % f != 0) continue;
    SumForm big;
    SumForm rest;
    for (const auto& u : c.sum.terms) (u.second % f == 0 ? big : rest).terms.push_back(u);
    if (rest.terms.empty()) continue;
    const Bounds r = bounds(g, build_sum(g, rest));
    if (r.vmin < 0 || r.vmax >= f) continue;
    for (auto& u : big.terms) u.second /= f;
    c = {big, c.limit / f};
    return;
  }
}

// The node: sums of negative terms stand on the right, a lone quotient loses its division.
const Node* less_node(Graph& g, Less c) {
  const bool negative = std::all_of(c.sum.terms.begin(), c.sum.terms.end(),
                                    [](const auto& t) { return t.second < 0; });
  if (negative) {
    for (auto& t : c.sum.terms) t.second = -t.second;
    c.limit = -c.limit;
  }
  int64_t wide = 0;
  const bool lone = c.sum.terms.size() == 1 && c.sum.terms[0].second == 1;
  const auto q = lone ? quotient_divisor(c.sum.terms[0].first) : std::nullopt;
  if (q && !__builtin_mul_overflow(c.limit + (negative ? 1 : 0), *q, &wide)) {
    const Node* x = c.sum.terms[0].first->src(0);
    return negative ? lt(g, const_int(g, wide - 1), x) : lt(g, x, const_int(g, wide));
  }
  const Node* sum = build_sum(g, c.sum);
  return negative ? lt(g, const_int(g, c.limit), sum) : lt(g, sum, const_int(g, c.limit));
}

// Both sides move: decided by the sign of the difference, or left.
const Node* compare_moving(Graph& g, const Node* n) {
  const auto s = sum_form(alu(g, Op::kSub, {n->src(0), n->src(1)}));
  if (!s) return nullptr;
  const Bounds b = bounds(g, build_sum(g, *s));
  if (b.vmax < 0) return const_bool(g, true);
  return b.vmin >= 0 ? const_bool(g, false) : nullptr;
}

const Node* compare_rule(Graph& g, const Node* n) {
  if (n->src(0)->dtype != DType::kWeakInt) return nullptr;
  const auto right = int_value(n->src(1));
  const auto left = int_value(n->src(0));
  if (!right && !left) return compare_moving(g, n);
  // c < x is -x < -c.
  const auto s = right ? sum_form(n->src(0)) : sum_form(alu(g, Op::kNeg, {n->src(1)}));
  if (!s || s->terms.empty() || (left && *left == INT64_MIN)) return nullptr;
  Less c{*s, right ? *right : -*left};
  if (!normalise_limit(c)) return nullptr;
  drop_small_part(g, c);
  return less_node(g, c);
}

// not(x < c) -> c-1 < x ; not(c < x) -> x < c+1, for weak integers.
const Node* not_rule(Graph& g, const Node* n) {
  if (!is_not(n) || n->src(0)->op != Op::kCmpLt) return nullptr;
  const Node* a = n->src(0)->src(0);
  const Node* b = n->src(0)->src(1);
  if (a->dtype != DType::kWeakInt) return nullptr;
  if (const auto c = int_value(b)) return lt(g, const_int(g, *c - 1), a);
  if (const auto c = int_value(a)) return lt(g, b, const_int(g, *c + 1));
  return nullptr;
}

// `k` with the tighter of two bounds on one expression in one direction; nullptr when they say
// different things.
const Node* tighter(const Node* k, const Node* t) {
  if (k == t) return k;
  if (t->op != Op::kCmpLt || k->op != Op::kCmpLt) return nullptr;
  const auto tr = int_value(t->src(1));
  const auto kr = int_value(k->src(1));
  if (tr && kr && t->src(0) == k->src(0)) return *tr < *kr ? t : k;
  const auto tl = int_value(t->src(0));
  const auto kl = int_value(k->src(0));
  if (tl && kl && t->src(1) == k->src(1)) return *tl > *kl ? t : k;
  return nullptr;
}

// One bound per expression and direction in a conjunction.
const Node* and_rule(Graph& g, const Node* n) {
  if (n->dtype != DType::kBool || n->src(0)->op != Op::kAnd) return nullptr;
  const NodeVec terms = split_and(n);
  NodeVec kept;
  for (const Node* t : terms) {
    const auto same = std::find_if(kept.begin(), kept.end(),
                                   [&](const Node* k) { return tighter(k, t) != nullptr; });
    if (same == kept.end()) {
      kept.push_back(t);
    } else {
      *same = tighter(*same, t);
    }
  }
  return kept.size() < terms.size() ? and_all(g, kept) : nullptr;
}

const Node* and_pair_rule(Graph& g, const Node* n) {
  if (n->dtype != DType::kBool || n->src(0)->op != Op::kCmpLt || n->src(1)->op != Op::kCmpLt)
    return nullptr;
  const Node* a = n->src(0);
  const Node* b = n->src(1);
  if (const Node* one = tighter(a, b)) return one;
  const auto ar = int_value(a->src(1));
  const auto br = int_value(b->src(1));
  const auto al = int_value(a->src(0));
  const auto bl = int_value(b->src(0));
  // c1 < x and x < c2 with nothing between.
  if (al && br && a->src(1) == b->src(0) && *al + 1 >= *br) return const_bool(g, false);
  if (bl && ar && b->src(1) == a->src(0) && *bl + 1 >= *ar) return const_bool(g, false);
  return nullptr;
}

// ---- effects and structure ----

const Node* flatten(Graph& g, const Node* n) {
  bool any = false;
  NodeVec src;
  for (const Node* s : n->src()) {
    if (s->op == Op::kNoop && s->nsrc == 0) {
      any = true;
    } else if (s->op == Op::kGroup || (s->op == Op::kSink && n->op == Op::kSink)) {
      any = true;
      src.insert(src.end(), s->src().begin(), s->src().end());
    } else if (std::find(src.begin(), src.end(), s) == src.end()) {
      src.push_back(s);
    } else {
      any = true;
    }
  }
  if (n->op == Op::kGroup && src.size() == 1) return src[0];
  return any ? g.with_src(n, src) : nullptr;
}

const Node* lone_after(Graph&, const Node* n) {
  return n->nsrc == 1 ? n->src(0) : nullptr;
}

const Node* gated_index(Graph& g, const Node* n) {
  if (!is_gated(n) || !is_int(n->dtype)) return nullptr;
  const Node* x = simplify_given(g, n->src(1), n->src(0));
  return x != n->src(1) ? g.make(Op::kWhere, n->dtype, {n->src(0), x, n->src(2)}) : nullptr;
}

const OpSet kIntervalOps =
    kComparisonOps | OpSet{Op::kFloorDiv, Op::kFloorMod, Op::kCDiv, Op::kCMod, Op::kSpecial,
                           Op::kRange,    Op::kParam,    Op::kAnd,  Op::kOr};

RuleSet make_simple() {
  RuleSet r;
  r.on(kElementwiseOps, "invalid moves out", push_into_gate);
  r.on({Op::kWhere}, "gates merge", gate_where);
  r.on(kElementwiseOps, "fold constants", fold_const);
  r.on({Op::kAdd, Op::kMul, Op::kMax}, "bool arithmetic", bool_arithmetic);
  r.on({Op::kAdd}, "x+0", add_identity);
  r.on({Op::kMul}, "x*1", mul_identity);
  r.on({Op::kSub}, "x-0", sub_identity);
  r.on({Op::kCDiv, Op::kCMod, Op::kFloorDiv, Op::kFloorMod}, "x/1", divmod_identity);
  r.on({Op::kAnd}, "x&x", and_identity);
  r.on({Op::kOr}, "x|x", or_identity);
  r.on({Op::kXor}, "x^0", xor_identity);
  r.on({Op::kShl, Op::kShr}, "x<<0", shift_identity);
  r.on({Op::kMax}, "max(x,x)", max_identity);
  r.on(kComparisonOps, "x<x", compare_identity);
  r.on({Op::kWhere}, "where", where_identity);
  r.on({Op::kCast, Op::kBitCast}, "cast chains", cast_identity);
  r.on(kIntervalOps, "one value only", bounds_fold);
  r.on({Op::kMax}, "max by bounds", max_by_bounds);
  r.on({Op::kSink, Op::kGroup}, "flatten", flatten);
  r.on({Op::kAfter}, "lone after", lone_after);
  return r;
}

RuleSet make_symbolic() {
  RuleSet r = make_simple();
  r.on(kCommutativeOps, "canonical order", commute);
  r.on(kAssociativeOps, "constants together", fold_chain);
  r.on({Op::kAdd, Op::kSub, Op::kNeg, Op::kMul}, "canonical sum", sum_rule);
  r.on({Op::kFloorDiv, Op::kFloorMod}, "div and mod", div_rule);
  r.on({Op::kCmpLt}, "compare", compare_rule);
  r.on({Op::kCmpNe}, "not less", not_rule);
  r.on({Op::kAnd}, "bounds pair", and_pair_rule);
  r.on({Op::kAnd}, "bounds of a conjunction", and_rule);
  return r;
}

RuleSet make_sym() {
  RuleSet r = make_symbolic();
  r.on({Op::kWhere}, "index given its gate", gated_index);
  return r;
}

}  // namespace

const RuleSet& simple_rules() {
  static const RuleSet rules = make_simple();
  return rules;
}

const RuleSet& symbolic_rules() {
  static const RuleSet rules = make_symbolic();
  return rules;
}

const RuleSet& sym_rules() {
  static const RuleSet rules = make_sym();
  return rules;
}

const Node* simplify(Graph& g, const Node* n) {
  return rewrite(g, n, symbolic_rules());
}

NodeVec split_and(const Node* cond) {
  NodeVec out;
  NodeVec work{cond};
  while (!work.empty()) {
    const Node* n = work.back();
    work.pop_back();
    if (n->op == Op::kAnd && n->dtype == DType::kBool) {
      work.push_back(n->src(1));
      work.push_back(n->src(0));
    } else if (std::find(out.begin(), out.end(), n) == out.end()) {
      out.push_back(n);
    }
  }
  return out;
}

const Node* and_all(Graph& g, const NodeVec& terms) {
  const Node* out = nullptr;
  for (const Node* t : terms) out = out == nullptr ? t : land(g, out, t);
  return out == nullptr ? const_bool(g, true) : out;
}

}  // namespace modeld::ir
