// number_params. Needs every variable of the kernel present. Gives: variables (slot -1) numbered
// after the buffers in visit order. core_id is not an argument word: it keeps slot -1.
#include <algorithm>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {

const Node* number_params(Graph& g, const Node* root, const CodegenOptions&) {
  int64_t next = 0;
  for (const Node* n : ir::toposort(root)) {
    if (n->op == ir::Op::kParam) next = std::max(next, n->as<ir::ParamArg>().slot + 1);
  }
  return map_graph(g, root, [&](const Node* n, ir::NodeVec& src) -> const Node* {
    if (n->op == ir::Op::kParam && n->as<ir::ParamArg>().slot < 0 &&
        n->as<ir::ParamArg>().name != "core_id") {
      ir::ParamArg arg = n->as<ir::ParamArg>();
      arg.slot = next++;
      return g.with_arg(n, arg);
    }
    return rebuilt(g, n, src);
  });
}

}  // namespace modeld::codegen
