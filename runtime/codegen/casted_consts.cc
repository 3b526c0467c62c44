// casted_consts. Needs final literals. Gives: every literal as CAST(type, CONST), so that renderers
// have one spelling. Sizes of storage and of vector slices are counts, not literals.
#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

bool is_size(const Node* n, size_t i) {
  return n->op == Op::kParam || n->op == Op::kBuffer || (n->op == Op::kShrink && i == 2);
}

// CAST(type, CONST without a type of its own); bools are spelled as they are.
const Node* literal(Graph& g, const Node* c) {
  if (c->dtype == ir::DType::kBool) return c;
  const ir::DType weak = ir::is_float(c->dtype) ? ir::DType::kWeakFloat : ir::DType::kWeakInt;
  return g.make(Op::kCast, c->dtype, {g.make(Op::kConst, weak, NodeVec{}, *c->arg)});
}

// A literal of one type converted to another is another literal; its digits must not stand under
// the new type.
const Node* converted_literal(Graph& g, const Node* cast, const Node* c) {
  if (ir::is_weak(c->dtype)) return nullptr;
  const Node* folded = ir::fold_const(g, g.with_src(cast, {c}));
  return folded != nullptr ? literal(g, folded) : g.with_src(cast, {literal(g, c)});
}

}  // namespace

const Node* casted_consts(Graph& g, const Node* root, const CodegenOptions&) {
  return map_graph(g, root, [&](const Node* n, NodeVec& src) -> const Node* {
    if (n->op == Op::kCast && src[0]->op == Op::kConst) {
      const Node* out = converted_literal(g, n, src[0]);
      return out != nullptr ? out : rebuilt(g, n, src);
    }
    for (size_t i = 0; i < src.size(); ++i) {
      if (src[i]->op == Op::kConst && !is_size(n, i)) src[i] = literal(g, src[i]);
    }
    return rebuilt(g, n, src);
  });
}

}  // namespace modeld::codegen
