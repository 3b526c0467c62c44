// early_movement. Needs nothing. Gives: INDEX over RESHAPE, PERMUTE, SHRINK, FLIP and EXPAND views
// of a buffer as INDEX of the buffer itself. Scheduled kernels hold none; hand-written ones may.
#include <algorithm>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

NodeVec stack_values(const Node* n) {
  if (n->op == Op::kStack) return {n->src().begin(), n->src().end()};
  return {n};
}

// Row-major position, then split by the inner shape.
NodeVec through_reshape(Graph& g, const Node* view, const NodeVec& at) {
  const ir::Shape outer = ir::shape(g, view);
  const ir::Shape inner = ir::shape(g, view->src(0));
  const Node* flat = ir::const_int(g, 0);
  for (size_t i = 0; i < at.size(); ++i) {
    flat = ir::add(g, ir::mul(g, flat, outer[i]), at[i]);
  }
  NodeVec out(inner.size());
  for (size_t i = inner.size(); i-- > 0;) {
    out[i] = i == 0 ? flat : ir::alu(g, Op::kFloorMod, {flat, inner[i]});
    flat = ir::alu(g, Op::kFloorDiv, {flat, inner[i]});
  }
  return out;
}

// The indices into the view's source; empty if the op is not handled.
NodeVec through(Graph& g, const Node* view, const NodeVec& at) {
  NodeVec out = at;
  switch (view->op) {
    case Op::kReshape:
      return through_reshape(g, view, at);
    case Op::kPermute: {
      const ir::Ints& order = view->as<ir::Ints>();
      for (size_t i = 0; i < order.size(); ++i) out[static_cast<size_t>(order[i])] = at[i];
      return out;
    }
    case Op::kShrink: {
      const NodeVec starts = stack_values(view->src(1));
      for (size_t i = 0; i < out.size(); ++i) out[i] = ir::add(g, at[i], starts[i]);
      return out;
    }
    case Op::kFlip: {
      const ir::Ints& flips = view->as<ir::Ints>();
      const std::vector<int64_t> size = ir::max_shape(g, view);
      for (size_t i = 0; i < out.size(); ++i) {
        if (flips[i] == 0) continue;
        const Node* last = ir::const_int(g, size[i] - 1);
        out[i] = ir::add(g, last, ir::mul_const(g, at[i], -1));
      }
      return out;
    }
    case Op::kExpand: {
      const auto added = static_cast<std::ptrdiff_t>(stack_values(view->src(1)).size());
      return {at.begin() + added, at.end()};
    }
    default:
      return {};
  }
}

const Node* index_of_view(Graph& g, const Node* n) {
  const Node* view = n->src(0);
  const NodeVec at(n->src().begin() + 1, n->src().end());
  if (!ir::kMovementOps.has(view->op) || at.size() != ir::shape(g, view).size()) return nullptr;
  NodeVec inner = through(g, view, at);
  if (inner.empty()) return nullptr;
  inner.insert(inner.begin(), view->src(0));
  return g.make(Op::kIndex, n->dtype, inner);
}

}  // namespace

const Node* early_movement(Graph& g, const Node* root, const CodegenOptions&) {
  ir::RuleSet rules;
  rules.on({Op::kIndex}, "index of view", index_of_view);
  return ir::rewrite_node_first(g, root, rules);
}

}  // namespace modeld::codegen
