// load_collapse. Needs whole reduces (no range split yet). Gives: a sum over r that keeps one
// element, sum_r (r == x ? value(r) : 0), as value(x) under the gate 0 <= x < bound, so a gather
// written as a one-hot sum reads one element.
#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

bool is_zero(const Node* n) {
  const auto v = ir::num_value(n);
  return v && *v == 0;
}

const Node* strip_cast(const Node* n) {
  while (n->op == Op::kCast && !ir::is_float(n->dtype)) n = n->src(0);
  return n;
}

// x when cond is (r == x), else null. x must not depend on r.
const Node* equal_to(Graph& g, const Node* cond, const Node* r, Op op) {
  if (cond->op != op) return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    if (strip_cast(cond->src(i)) == r && !ir::depends_on(g, cond->src(1 - i), r)) {
      return cond->src(1 - i);
    }
  }
  return nullptr;
}

struct OneHot {
  const Node* position;
  const Node* value;
};

OneHot match_one_hot(Graph& g, const Node* v, const Node* r) {
  if (v->op != Op::kWhere) return {};
  const Node* c = v->src(0);
  if (is_zero(v->src(2))) {
    if (const Node* x = equal_to(g, c, r, Op::kCmpEq)) return {x, v->src(1)};
  }
  if (is_zero(v->src(1))) {
    if (const Node* x = equal_to(g, c, r, Op::kCmpNe)) return {x, v->src(2)};
  }
  return {};
}

// Every address that used r gets the gate: the element is read only where x is in range.
const Node* gate_addresses(
    Graph& g, const Node* value, const Node* r, const Node* x, const Node* gate) {
  return map_graph(g, value, [&](const Node* n, NodeVec& src) -> const Node* {
    if (n == r) return x;
    if (is_address(n) && n->op == Op::kIndex && ir::depends_on(g, n->src(1), r)) {
      const GatedIndex at = split_gate(src[1]);
      src[1] = join_gate(g, at.gate != nullptr ? ir::land(g, at.gate, gate) : gate, at.index);
    }
    return rebuilt(g, n, src);
  });
}

const Node* collapse(Graph& g, const Node* n) {
  if (n->as<ir::ReduceArg>().op != Op::kAdd) return nullptr;
  for (size_t i = 1; i < n->nsrc; ++i) {
    const Node* r = n->src(i);
    if (r->op != Op::kRange) continue;
    const OneHot hot = match_one_hot(g, n->src(0), r);
    if (hot.position == nullptr) continue;
    const Node* x = ir::cast(g, hot.position, ir::DType::kWeakInt);
    const Node* low = ir::logical_not(g, ir::lt(g, x, ir::const_int(g, 0)));
    const Node* gate = ir::land(g, low, ir::lt(g, x, r->src(0)));
    const Node* value = gate_addresses(g, hot.value, r, x, gate);
    NodeVec src{ir::where(g, gate, value, ir::const_of(g, n->dtype, 0))};
    for (size_t k = 1; k < n->nsrc; ++k) {
      if (k != i) src.push_back(n->src(k));
    }
    return src.size() == 1 ? src[0] : g.with_src(n, src);
  }
  return nullptr;
}

}  // namespace

const Node* load_collapse(Graph& g, const Node* root, const CodegenOptions&) {
  ir::RuleSet rules;
  rules.on({Op::kReduce}, "load_collapse", collapse);
  return ir::rewrite(g, root, rules);
}

}  // namespace modeld::codegen
