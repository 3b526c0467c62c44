#include "runtime/schedule/byte_view.h"

#include <vector>

#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::Op;

namespace {

bool keeps_element_size(const Node* n) {
  return ir::kMovementOps.has(n->op) || n->op == Op::kDetach;
}

// Flat storage that stands for the value of a BITCAST.
const Node* stand_in(Graph& g, const Node* bitcast) {
  const Node* shape = ir::shape_node(g, ir::max_shape(g, bitcast));
  return g.make(Op::kParam, bitcast->dtype, {shape}, ir::ParamArg{});
}

}  // namespace

bool is_symbolic(Graph& g, const Node* n) {
  for (const Node* d : ir::shape(g, n)) {
    if (!ir::is_const(d)) return true;
  }
  return false;
}

const Node* below_views(const Node* n) {
  while (keeps_element_size(n) || n->op == Op::kBitCast || n->op == Op::kUnshard) n = n->src(0);
  return n;
}

std::optional<ByteView> byte_view(Graph& g, const Node* n) {
  int64_t bytes = 0;
  while (true) {
    const Node* below = n;
    for (; keeps_element_size(below); below = below->src(0)) {
      if (is_symbolic(g, below)) return std::nullopt;
    }
    const bool storage = below->op == Op::kBuffer || below->op == Op::kParam;
    if ((!storage && below->op != Op::kBitCast) || is_symbolic(g, below)) return std::nullopt;
    const Node* chain = storage ? n : ir::substitute(g, n, {{below, stand_in(g, below)}});
    const auto view = ir::contiguous_view(g, chain);
    if (!view) return std::nullopt;
    bytes += view->offset * ir::item_size(below->dtype);
    if (storage) return ByteView{below, bytes};
    n = below->src(0);
  }
}

}  // namespace modeld::schedule
