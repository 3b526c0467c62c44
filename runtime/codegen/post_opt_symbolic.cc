// post_opt_symbolic. Needs axes with their final types. Gives: conditions of WHERE(c, load, 0) as
// validity of the load, no reduce range that the value ignores, no constant factor inside a sum. A
// REDUCE that folds to a constant must be gone before the expander sees it.
#include <algorithm>

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

bool reads_memory(const Node* n) {
  for (const Node* s : ir::toposort(n)) {
    if (s->op == Op::kIndex || s->op == Op::kLoad) return true;
  }
  return false;
}

// A clause may move onto the load when it is about the index's own ranges and reads nothing.
bool may_move(Graph& g, const Node* clause, const Node* index) {
  const NodeVec& have = ir::ranges(g, index);
  for (const Node* r : ir::ranges(g, clause)) {
    if (std::find(have.begin(), have.end(), r) == have.end()) return false;
  }
  return !reads_memory(clause);
}

// WHERE(c, load or CAST(load), 0): the load gives 0 by itself where its gate is false.
const Node* where_on_load(Graph& g, const Node* n) {
  const Node* value = n->src(1);
  const Node* load = value->op == Op::kCast ? value->src(0) : value;
  if (load->op != Op::kIndex || !is_address(load) || load->nsrc != 2 || !is_zero(n->src(2))) {
    return nullptr;
  }
  const GatedIndex at = split_gate(load->src(1));
  NodeVec gate = at.gate != nullptr ? ir::split_and(at.gate) : NodeVec{};
  NodeVec stay;
  bool moved = false;
  for (const Node* clause : ir::split_and(n->src(0))) {
    if (!may_move(g, clause, load->src(1))) {
      stay.push_back(clause);
      continue;
    }
    moved = true;
    if (std::find(gate.begin(), gate.end(), clause) == gate.end()) gate.push_back(clause);
  }
  if (!moved) return nullptr;
  const Node* gated =
      g.with_src(load, {load->src(0), join_gate(g, ir::and_all(g, gate), at.index)});
  const Node* result = value->op == Op::kCast ? g.with_src(value, {gated}) : gated;
  return stay.empty() ? result : ir::where(g, ir::and_all(g, stay), result, n->src(2));
}

// A range the value does not depend on only repeats it.
const Node* drop_unparented(Graph& g, const Node* n) {
  const Op op = n->as<ir::ReduceArg>().op;
  const NodeVec& have = ir::ranges(g, n->src(0));
  NodeVec keep{n->src(0)};
  int64_t repeats = 1;
  for (const Node* r : n->src().subspan(1)) {
    const bool used = std::find(have.begin(), have.end(), r) != have.end();
    if (used || !ir::is_const(r->src(0))) {
      keep.push_back(r);
    } else {
      repeats *= range_size(g, r);
    }
  }
  if (keep.size() == n->nsrc || (op == Op::kMul && repeats > 1)) return nullptr;
  const Node* rest = keep.size() == 1 ? keep[0] : g.with_src(n, keep);
  return op == Op::kAdd ? ir::mul_const(g, rest, repeats) : rest;
}

// sum(x * c) -> sum(x) * c; max the same for a constant c >= 0.
const Node* factor_out(Graph& g, const Node* n) {
  const Op op = n->as<ir::ReduceArg>().op;
  const Node* v = n->src(0);
  if (v->op != Op::kMul || n->nsrc < 2) return nullptr;
  for (size_t i = 2; i-- > 0;) {
    const Node* c = v->src(i);
    bool free = true;
    for (const Node* r : n->src().subspan(1)) free = free && !ir::depends_on(g, c, r);
    if (!free) continue;
    const auto value = ir::num_value(c);
    if (op == Op::kMul || (op == Op::kMax && !(value && *value >= 0))) continue;
    NodeVec src(n->src().begin(), n->src().end());
    src[0] = v->src(1 - i);
    return ir::mul(g, g.with_src(n, src), c);
  }
  return nullptr;
}

}  // namespace

const Node* post_opt_symbolic(Graph& g, const Node* root, const CodegenOptions&) {
  ir::RuleSet rules;
  rules.append(ir::sym_rules());
  rules.on({Op::kWhere}, "where_on_load", where_on_load);
  rules.on({Op::kReduce}, "drop_unparented", drop_unparented);
  rules.on({Op::kReduce}, "factor_out", factor_out);
  return flatten_ranges(g, ir::rewrite(g, root, rules));
}

}  // namespace modeld::codegen
