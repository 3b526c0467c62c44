#include "selftest/testing/whole_args.h"

#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"

namespace modeld::testing {

using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

// The body with argument `slot` grown to `size` elements, of which the old one began at `offset`.
const Node* moved_body(
    ir::Graph& g, const Node* body, int64_t slot, int64_t offset, const Node* buffer) {
  ir::NodeMap map;  // children first: an index may itself read the same argument
  for (const Node* n : ir::toposort(body)) {
    if (n->op != Op::kIndex || n->src(0)->op != Op::kParam) continue;
    const auto& p = n->src(0)->as<ir::ParamArg>();
    if (p.addrspace == ir::AddrSpace::kAlu || p.slot != slot) continue;
    const Node* whole =
        ir::param(g, slot, n->src(0)->dtype, ir::element_count(g, buffer), p.device);
    map[n] = g.with_src(n, {whole, ir::add_const(g, ir::substitute(g, n->src(1), map), offset)});
  }
  return ir::substitute(g, body, map);
}

}  // namespace

const Node* with_whole_args(ir::Graph& g, const Node* call) {
  NodeVec src(call->src().begin(), call->src().end());
  for (size_t i = 1; i < src.size(); ++i) {
    if (src[i]->op == Op::kBuffer || src[0]->op == Op::kCopy) continue;
    const auto view = ir::contiguous_view(g, src[i]);
    if (!view) continue;
    src[0] = moved_body(g, src[0], static_cast<int64_t>(i) - 1, view->offset, view->buffer);
    src[i] = view->buffer;
  }
  return g.with_src(call, src);
}

}  // namespace modeld::testing
