#include "runtime/codegen/wmma_sum.h"

#include <algorithm>
#include <map>

namespace modeld::codegen {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

bool starts_at_zero(const Node* step) {
  const Node* acc = step->src(2);
  return acc->op == Op::kStack &&
         std::all_of(acc->src().begin(), acc->src().end(),
                     [](const Node* s) { return ir::num_value(s) == 0.0; });
}

// Per step of a matrix unit, the lane its element goes to; lanes of steps that are not read as a
// whole are left out.
std::map<uint32_t, NodeVec> whole_steps(const NodeVec& column, const NodeVec& sums) {
  std::map<uint32_t, NodeVec> out;  // by node id: creation order
  for (size_t lane = 0; lane < column.size(); ++lane) {
    const Node* step = column[lane]->src(0);
    NodeVec& acc = out[step->id];
    acc.resize(step->src(2)->nsrc, nullptr);
    const auto element = static_cast<size_t>(ir::int_value(column[lane]->src(1)).value_or(0));
    if (element < acc.size() && acc[element] == nullptr) acc[element] = sums[lane];
  }
  std::erase_if(out, [](const auto& entry) {
    return std::count(entry.second.begin(), entry.second.end(), nullptr) > 0;
  });
  return out;
}

void add_column(Graph& g, Op op, const NodeVec& column, NodeVec& sums) {
  const bool steps = op == Op::kAdd && std::all_of(column.begin(), column.end(), is_wmma_element);
  std::map<uint32_t, NodeVec> whole;
  if (steps) whole = whole_steps(column, sums);
  for (size_t lane = 0; lane < column.size(); ++lane) {
    const Node* term = column[lane];
    const auto it = steps ? whole.find(term->src(0)->id) : whole.end();
    if (it == whole.end() || !starts_at_zero(term->src(0))) {
      sums[lane] = ir::alu(g, op, {sums[lane], term});
      continue;
    }
    const Node* step = term->src(0);
    const Node* acc = g.make(Op::kStack, step->dtype, it->second);
    sums[lane] = g.make(Op::kIndex, term->dtype,
                        {g.with_src(step, {step->src(0), step->src(1), acc}), term->src(1)});
  }
}

}  // namespace

bool is_wmma_element(const Node* n) {
  return n->op == Op::kIndex && n->nsrc == 2 && n->src(0)->op == Op::kWmma &&
         ir::is_const(n->src(1));
}

NodeVec add_terms(Graph& g, Op op, const NodeVec& sums, const std::vector<NodeVec>& terms) {
  NodeVec out = sums;
  size_t most = 0;
  for (const NodeVec& t : terms) most = std::max(most, t.size());
  const bool even =
      std::all_of(terms.begin(), terms.end(), [&](const NodeVec& t) { return t.size() == most; });
  for (size_t k = 0; even && k < most; ++k) {
    NodeVec column;
    for (const NodeVec& t : terms) column.push_back(t[k]);
    if (out.empty()) {
      out = column;
    } else {
      add_column(g, op, column, out);
    }
  }
  // Lanes with more terms than others pair up with nothing.
  for (size_t lane = 0; !even && lane < terms.size(); ++lane) {
    for (const Node* t : terms[lane]) out[lane] = ir::alu(g, op, {out[lane], t});
  }
  return out;
}

}  // namespace modeld::codegen
