// cast_float_operands. Needs concrete types. Gives: SIN, LOG2, EXP2, SQRT and RECIPROCAL with float
// operands; the decompositions after it assume that.
#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {

const Node* cast_float_operands(Graph& g, const Node* root, const CodegenOptions&) {
  static constexpr ir::OpSet kFloatOps = {ir::Op::kSin, ir::Op::kLog2, ir::Op::kExp2, ir::Op::kSqrt,
                                          ir::Op::kReciprocal};
  return map_graph(g, root, [&](const Node* n, ir::NodeVec& src) -> const Node* {
    if (!kFloatOps.has(n->op)) return rebuilt(g, n, src);
    const ir::DType t = ir::is_float(n->dtype) ? n->dtype : ir::DType::kF32;
    if (src[0]->dtype != t) src[0] = ir::cast(g, src[0], t);
    const Node* out = g.make(n->op, t, src);
    return n->dtype == t ? out : ir::cast(g, out, n->dtype);
  });
}

}  // namespace modeld::codegen
