// Simplifying an index knowing that its gate holds: bounded stand-ins replace what the gate bounds,
// the result is simplified, and the originals are put back.
#include <algorithm>
#include <map>

#include "runtime/ir/derived.h"
#include "runtime/ir/sum_form.h"
#include "runtime/ir/symbolic.h"

namespace modeld::ir {
namespace {

struct Interval {
  const Node* value;
  int64_t lo;
  int64_t hi;
};

// What the terms `x < c` and `c < x` of a conjunction say of each x, in order of first mention.
std::vector<Interval> intervals(Graph& g, const Node* valid) {
  std::vector<Interval> out;
  for (const Node* t : split_and(valid)) {
    if (t->op != Op::kCmpLt || t->src(0)->dtype != DType::kWeakInt) continue;
    const auto left = int_value(t->src(0));
    const auto right = int_value(t->src(1));
    if (left.has_value() == right.has_value()) continue;
    const Node* x = left ? t->src(1) : t->src(0);
    auto it = std::find_if(out.begin(), out.end(), [&](const Interval& i) { return i.value == x; });
    if (it == out.end()) {
      const Bounds b = bounds(g, x);
      out.push_back({x, b.vmin, b.vmax});
      it = out.end() - 1;
    }
    if (left) it->lo = std::max(it->lo, *left + 1);
    if (right) it->hi = std::min(it->hi, *right - 1);
  }
  return out;
}

// An index that itself loads keeps its value: that load still executes whatever the gate says.
bool loads(const Node* n) {
  for (const Node* s : toposort(n)) {
    if (s->op == Op::kIndex || s->op == Op::kLoad) return true;
  }
  return false;
}

const Node* with_bound(Graph& g, const Node* value, const Interval& in, int number) {
  const Node* fake = variable(g, "given" + std::to_string(number), in.lo, in.hi, DType::kWeakInt);
  NodeMap there;
  NodeMap back{{fake, in.value}};
  const auto s = sum_form(in.value);
  if (kIrreducibleOps.has(in.value->op) || !s || s->terms.size() < 2) {
    there[in.value] = fake;
  } else {
    // The sum is spread over the index: solve it for a term that stands alone.
    const auto it = std::find_if(s->terms.begin(), s->terms.end(), [](const auto& t) {
      return t.second == 1 && kIrreducibleOps.has(t.first->op);
    });
    if (it == s->terms.end()) return value;
    const Node* term = it->first;
    SumForm rest = *s;
    rest.terms.erase(rest.terms.begin() + (it - s->terms.begin()));
    there[term] = alu(g, Op::kSub, {fake, build_sum(g, rest)});
  }
  const Node* changed = substitute(g, value, there);
  if (changed == value) return value;
  changed = simplify(g, substitute(g, simplify(g, changed), back));
  return toposort(changed).size() < toposort(value).size() ? changed : value;
}

}  // namespace

const Node* simplify_given(Graph& g, const Node* value, const Node* valid) {
  if (is_const(value) || loads(value)) return value;
  int number = 0;
  for (const Interval& in : intervals(g, valid)) {
    if (in.lo > in.hi) continue;
    value = with_bound(g, value, in, number++);
    if (g.failed()) break;
  }
  return value;
}

}  // namespace modeld::ir
