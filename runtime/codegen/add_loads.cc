// add_loads. Needs memory operands as bare INDEX nodes. Gives: a LOAD around each one that is used
// as a value; addresses of loads and stores stay bare.
#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

// Source i of n is an address or an effect, not a value.
bool takes_address(const Node* n, size_t i) {
  switch (n->op) {
    case Op::kLoad:
    case Op::kStore:
    case Op::kIndex:
    case Op::kShrink:
      return i == 0;
    case Op::kAfter:
    case Op::kEnd:
    case Op::kGroup:
    case Op::kSink:
      return true;
    default:
      return false;
  }
}

}  // namespace

const Node* add_loads(Graph& g, const Node* root, const CodegenOptions&) {
  return map_graph(g, root, [&](const Node* n, NodeVec& src) -> const Node* {
    for (size_t i = 0; i < src.size(); ++i) {
      if (!takes_address(n, i) && is_address(src[i])) {
        src[i] = g.make(Op::kLoad, src[i]->dtype, {src[i]});
      }
    }
    return rebuilt(g, n, src);
  });
}

}  // namespace modeld::codegen
