#include "runtime/codegen/expand_reduce.h"

#include <algorithm>

#include "runtime/codegen/wmma_sum.h"
#include "runtime/ir/graph.h"

namespace modeld::codegen {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

// With few kept lanes, one accumulator per unrolled lane keeps the adders busy (and makes one
// vector); they are folded once, after the loop.
constexpr size_t kMaxKeptForLateFold = 4;
constexpr size_t kMaxAccumulators = 64;
constexpr size_t kMinLateFold = 4;

const Node* fold_in_order(Graph& g, Op op, const NodeVec& terms) {
  const Node* out = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) out = ir::alu(g, op, {out, terms[i]});
  return out;
}

// Halves added to halves: log depth, the same tree whatever made the lanes.
const Node* fold_tree(Graph& g, Op op, NodeVec terms) {
  while (terms.size() > 1) {
    const size_t half = (terms.size() + 1) / 2;
    for (size_t i = half; i < terms.size(); ++i) {
      terms[i - half] = ir::alu(g, op, {terms[i - half], terms[i]});
    }
    terms.resize(half);
  }
  return terms[0];
}

// One loop reducing all lanes at once: REDUCE over a STACK, read back by INDEX.
NodeVec loop_over(Graph& g, const Node* reduce, const NodeVec& lanes, const NodeVec& loops) {
  NodeVec src{lanes[0]};
  src.insert(src.end(), loops.begin(), loops.end());
  if (lanes.size() == 1) return {g.with_src(reduce, src)};
  src[0] = g.make(Op::kStack, reduce->dtype, lanes);
  const Node* all = g.with_src(reduce, src);
  NodeVec out;
  for (size_t i = 0; i < lanes.size(); ++i) {
    out.push_back(
        g.make(Op::kIndex, reduce->dtype, {all, ir::const_int(g, static_cast<int64_t>(i))}));
  }
  return out;
}

NodeVec slice(const NodeVec& v, size_t at, size_t n) {
  const auto first = v.begin() + static_cast<std::ptrdiff_t>(at);
  return {first, first + static_cast<std::ptrdiff_t>(n)};
}

}  // namespace

NodeVec expand_reduce(Graph& g,
                      const Node* reduce,
                      const ReduceLanes& value,
                      const NodeVec& loops,
                      const CodegenOptions& o) {
  const Op op = reduce->as<ir::ReduceArg>().op;
  const size_t n = value.unrolled;
  const bool late = o.heuristic == Heuristic::kCpu && n >= kMinLateFold &&
                    value.kept <= kMaxKeptForLateFold && value.lanes.size() <= kMaxAccumulators;
  NodeVec out;
  if (late) {
    const NodeVec sums = loop_over(g, reduce, value.lanes, loops);
    for (size_t k = 0; k < value.kept; ++k) out.push_back(fold_tree(g, op, slice(sums, k * n, n)));
    return out;
  }
  if (loops.empty() && std::all_of(value.lanes.begin(), value.lanes.end(), is_wmma_element)) {
    std::vector<NodeVec> terms;
    for (size_t k = 0; k < value.kept; ++k) terms.push_back(slice(value.lanes, k * n, n));
    return add_terms(g, op, {}, terms);
  }
  for (size_t k = 0; k < value.kept; ++k) {
    out.push_back(fold_in_order(g, op, slice(value.lanes, k * n, n)));
  }
  return loops.empty() ? out : loop_over(g, reduce, out, loops);
}

}  // namespace modeld::codegen
