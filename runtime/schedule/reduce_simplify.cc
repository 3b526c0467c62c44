#include "runtime/schedule/reduce_simplify.h"

#include <algorithm>
#include <optional>

#include "runtime/ir/derived.h"
#include "runtime/ir/symbolic.h"
#include "runtime/schedule/expr_util.h"

namespace modeld::schedule {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

Op reduce_op(const Node* reduce) {
  return reduce->as<ir::ReduceArg>().op;
}

const Node* with_ranges(Graph& g, const Node* reduce, const Node* value, const NodeVec& ranges) {
  if (ranges.empty()) return value;
  NodeVec src{value};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return g.with_src(reduce, src);
}

NodeVec ranges_of(const Node* reduce) {
  return {reduce->src().begin() + 1, reduce->src().end()};
}

NodeVec without(const NodeVec& all, const Node* r) {
  NodeVec rest;
  std::copy_if(all.begin(), all.end(), std::back_inserter(rest),
               [r](const Node* x) { return x != r; });
  return rest;
}

// value combined n times with itself.
const Node* repeat_value(Graph& g, Op op, const Node* value, int64_t n) {
  if (op == Op::kMax || n == 1) return value;
  if (op == Op::kAdd) {
    if (value->dtype == DType::kBool) return nullptr;
    return ir::mul(g, value, ir::const_int(g, n, value->dtype));
  }
  const Node* power = nullptr;  // binary powers
  for (const Node* square = value; n > 0; n /= 2) {
    if (n % 2 == 1) power = power == nullptr ? square : ir::mul(g, power, square);
    square = ir::mul(g, square, square);
  }
  return power;
}

const Node* drop_unused_range(Graph& g, const Node* reduce) {
  const NodeVec ranges = ranges_of(reduce);
  for (const Node* r : ranges) {
    const auto bound = ir::int_value(r->src(0));
    if (!bound || *bound < 1 || ir::depends_on(g, reduce->src(0), r)) continue;
    const Node* once = with_ranges(g, reduce, reduce->src(0), without(ranges, r));
    return repeat_value(g, reduce_op(reduce), once, *bound);
  }
  return nullptr;
}

// a + b*r with b = +-1 and a free of r; nothing if e has another form.
struct Linear {
  const Node* rest;  // nullptr = 0
  int64_t sign;
};

std::optional<Linear> linear_in(Graph& g, const Node* e, const Node* r) {
  if (e == r) return Linear{nullptr, 1};
  if (e->op == Op::kMul && e->src(0) == r && ir::is_int_const(e->src(1), -1))
    return Linear{nullptr, -1};
  if (e->op == Op::kCast && (e->dtype == DType::kI32 || e->dtype == DType::kI64)) {
    return linear_in(g, e->src(0), r);
  }
  if (e->op != Op::kAdd) return std::nullopt;
  for (size_t side = 0; side < 2; side++) {
    const Node* other = e->src(1 - side);
    if (ir::depends_on(g, other, r)) continue;
    auto inner = linear_in(g, e->src(side), r);
    if (!inner) return std::nullopt;
    const Node* weak = ir::cast(g, other, DType::kWeakInt);
    inner->rest = inner->rest == nullptr ? weak : ir::add(g, inner->rest, weak);
    return inner;
  }
  return std::nullopt;
}

// What one condition says about r: r in [low, high), both free of r (nullptr = no limit), or r ==
// at.
struct Window {
  const Node* low = nullptr;
  const Node* high = nullptr;
  const Node* at = nullptr;
};

const Node* neg(Graph& g, const Node* n) {
  return ir::mul_const(g, n, -1);
}

const Node* sub(Graph& g, const Node* a, const Node* b) {
  return b == nullptr ? a : ir::add(g, a, neg(g, b));
}

const Node* or_zero(Graph& g, const Node* n) {
  return n == nullptr ? ir::const_int(g, 0) : n;
}

// left < right with r on exactly one side.
std::optional<Window> less_window(Graph& g, const Node* left, const Node* right, const Node* r) {
  if (ir::is_float(left->dtype)) return std::nullopt;
  const bool on_left = ir::depends_on(g, left, r);
  if (on_left == ir::depends_on(g, right, r)) return std::nullopt;
  const auto lin = linear_in(g, on_left ? left : right, r);
  if (!lin) return std::nullopt;
  const Node* limit = ir::cast(g, on_left ? right : left, DType::kWeakInt);
  Window w;
  if (on_left && lin->sign > 0) {  // rest + r < limit
    w.high = sub(g, limit, lin->rest);
  } else if (on_left) {  // rest - r < limit  ->  r > rest - limit
    w.low = ir::add_const(g, sub(g, or_zero(g, lin->rest), limit), 1);
  } else if (lin->sign > 0) {  // limit < rest + r  ->  r > limit - rest
    w.low = ir::add_const(g, sub(g, limit, lin->rest), 1);
  } else {  // limit < rest - r  ->  r < rest - limit
    w.high = sub(g, or_zero(g, lin->rest), limit);
  }
  return w;
}

std::optional<Window> equal_window(Graph& g, const Node* eq, const Node* r) {
  if (ir::is_float(eq->src(0)->dtype) || eq->src(0)->dtype == DType::kBool) return std::nullopt;
  const bool on_left = ir::depends_on(g, eq->src(0), r);
  if (on_left == ir::depends_on(g, eq->src(1), r)) return std::nullopt;
  const auto lin = linear_in(g, eq->src(on_left ? 0 : 1), r);
  if (!lin) return std::nullopt;
  const Node* other = ir::cast(g, eq->src(on_left ? 1 : 0), DType::kWeakInt);
  Window w;
  w.at = lin->sign > 0 ? sub(g, other, lin->rest) : sub(g, or_zero(g, lin->rest), other);
  return w;
}

bool is_negation(const Node* c) {
  return c->op == Op::kCmpNe && c->src(0)->dtype == DType::kBool && ir::is_int_const(c->src(1), 1);
}

std::optional<Window> window_of(Graph& g, const Node* cond, const Node* r) {
  if (cond->op == Op::kCmpLt) return less_window(g, cond->src(0), cond->src(1), r);
  if (cond->op == Op::kCmpEq) return equal_window(g, cond, r);
  if (!is_negation(cond)) return std::nullopt;
  const Node* inner = cond->src(0);
  if (inner->op == Op::kCmpNe) return equal_window(g, inner, r);
  if (inner->op != Op::kCmpLt) return std::nullopt;
  // !(a < b) = b - 1 < a = b < a + 1
  return less_window(g, inner->src(1), ir::add_const(g, inner->src(0), 1), r);
}

const Node* max_of(Graph& g, const Node* a, const Node* b) {
  return ir::alu(g, Op::kMax, {a, b});
}

const Node* min_of(Graph& g, const Node* a, const Node* b) {
  return neg(g, max_of(g, neg(g, a), neg(g, b)));
}

// Everything a conjunction says about r, and the terms that do not speak of it.
struct Windows {
  const Node* low = nullptr;   // weakint; nullptr = 0
  const Node* high = nullptr;  // nullptr = bound
  const Node* at = nullptr;
  const Node* other = nullptr;  // nullptr = true
};

std::optional<Windows> windows_of(Graph& g, const Node* cond, const Node* r) {
  Windows all;
  for (const Node* term : ir::split_and(cond)) {
    if (!ir::depends_on(g, term, r)) {
      all.other = and_valid(g, all.other, term);
      continue;
    }
    const auto w = window_of(g, term, r);
    if (!w || (w->at != nullptr && all.at != nullptr)) return std::nullopt;
    if (w->at != nullptr) all.at = w->at;
    if (w->low != nullptr) all.low = all.low == nullptr ? w->low : max_of(g, all.low, w->low);
    if (w->high != nullptr) all.high = all.high == nullptr ? w->high : min_of(g, all.high, w->high);
  }
  return all;
}

// Sum over r of WHERE(cond, v, 0) with v free of r: a count times v.
const Node* count_times(Graph& g, const Windows& w, const Node* v, int64_t bound) {
  if (v->dtype == DType::kBool) return nullptr;
  const Node* zero = ir::const_int(g, 0);
  const Node* end = ir::const_int(g, bound);
  const Node* low = w.low == nullptr ? zero : max_of(g, w.low, zero);
  const Node* high = w.high == nullptr ? end : min_of(g, w.high, end);
  const Node* count = min_of(g, max_of(g, sub(g, high, low), zero), end);
  const Node* scaled = ir::mul(g, ir::cast(g, count, v->dtype), v);
  return w.other == nullptr ? scaled : ir::where(g, w.other, scaled, zero_of(g, v->dtype));
}

// Sum over r of WHERE(r == at && ..., v(r), 0): v(at) where that is inside.
const Node* pick(Graph& g, const Windows& w, const Node* v, const Node* r, int64_t bound) {
  const auto at_least = [&](const Node* low) { return ir::logical_not(g, ir::lt(g, w.at, low)); };
  const Node* valid = and_valid(g, w.other, at_least(ir::const_int(g, 0)));
  valid = and_valid(g, valid, ir::lt(g, w.at, ir::const_int(g, bound)));
  if (w.low != nullptr) valid = and_valid(g, valid, at_least(w.low));
  if (w.high != nullptr) valid = and_valid(g, valid, ir::lt(g, w.at, w.high));
  const Node* value = replace_ranges_gated(g, v, {{r, w.at}}, valid);
  return ir::where(g, valid, value, zero_of(g, v->dtype));
}

bool is_zero(const Node* n) {
  const auto v = ir::num_value(n);
  return v && *v == 0;
}

// Moves r-free factors and casts of exact conditions to the form WHERE(cond, value, 0).
struct Masked {
  const Node* cond;
  const Node* value;
};

std::optional<Masked> as_masked(Graph& g, const Node* v, const Node* r) {
  if (v->op == Op::kWhere) {
    if (is_zero(v->src(2))) return Masked{v->src(0), v->src(1)};
    if (is_zero(v->src(1))) return Masked{ir::logical_not(g, v->src(0)), v->src(2)};
    return std::nullopt;
  }
  if (v->op == Op::kCast && v->src(0)->dtype == DType::kBool) {
    return Masked{v->src(0), ir::const_int(g, 1, v->dtype)};
  }
  // Casting a masked integer: the zero stays zero.
  if (v->op == Op::kCast) {
    auto m = as_masked(g, v->src(0), r);
    if (m) m->value = ir::cast(g, m->value, v->dtype);
    return m;
  }
  if (v->op != Op::kMul || v->dtype == DType::kBool) return std::nullopt;
  for (size_t side = 0; side < 2; side++) {
    auto m = as_masked(g, v->src(side), r);
    if (!m) continue;
    // A float factor could be infinite or NaN where the mask is zero: only selections that pick a
    // single element or constants keep the value.
    const Node* factor = v->src(1 - side);
    if (ir::is_float(v->dtype) && !ir::is_const(factor)) {
      const auto w = windows_of(g, m->cond, r);
      if (!w || w->at == nullptr) continue;
    }
    m->value = ir::mul(g, m->value, factor);
    return m;
  }
  return std::nullopt;
}

// One loop of a sum of masked values, if its condition is understood.
const Node* collapse_one(Graph& g, const Node* value, const Node* r) {
  const auto bound = ir::int_value(r->src(0));
  if (!bound) return nullptr;
  const auto m = as_masked(g, value, r);
  if (!m || !ir::depends_on(g, m->cond, r)) return nullptr;
  const auto w = windows_of(g, m->cond, r);
  if (!w) return nullptr;
  if (w->at != nullptr) return pick(g, *w, m->value, r, *bound);
  if (ir::depends_on(g, m->value, r)) return nullptr;
  return count_times(g, *w, m->value, *bound);
}

const Node* collapse_sum(Graph& g, const Node* reduce) {
  if (reduce_op(reduce) != Op::kAdd) return nullptr;
  const NodeVec ranges = ranges_of(reduce);
  for (const Node* r : ranges) {
    const Node* collapsed = collapse_one(g, reduce->src(0), r);
    if (collapsed != nullptr) return with_ranges(g, reduce, collapsed, without(ranges, r));
  }
  return nullptr;
}

// A sum of a sum splits if one part then loses a loop.
const Node* split_sum(Graph& g, const Node* reduce) {
  const Node* sum = reduce->src(0);
  if (reduce_op(reduce) != Op::kAdd || sum->op != Op::kAdd) return nullptr;
  const NodeVec ranges = ranges_of(reduce);
  for (const Node* part : sum->src()) {
    const bool is_free = std::none_of(ranges.begin(), ranges.end(),
                                      [&](const Node* r) { return ir::depends_on(g, part, r); });
    const bool collapses = ranges.size() == 1 && collapse_one(g, part, ranges[0]) != nullptr;
    if (!is_free && !collapses) continue;
    return ir::add(g, with_ranges(g, reduce, sum->src(0), ranges),
                   with_ranges(g, reduce, sum->src(1), ranges));
  }
  return nullptr;
}

}  // namespace

const Node* reduce_simplify(Graph& g, const Node* reduce) {
  if (reduce->nsrc == 1) return reduce->src(0);
  if (const Node* n = drop_unused_range(g, reduce)) return n;
  if (const Node* n = collapse_sum(g, reduce)) return n;
  return split_sum(g, reduce);
}

}  // namespace modeld::schedule
