// add_local_buffers. Needs STAGE nodes in local memory (group_reduces). Gives: a LOCAL BUFFER for
// each, its STORE closed by END over the stage's axes, and AFTER as the state that readers index.
#include <map>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

// Row-major place of coordinates in a block of `sizes`.
const Node* flat_index(Graph& g,
                       std::span<const Node* const> at,
                       const std::vector<int64_t>& sizes) {
  const Node* flat = ir::const_int(g, 0);
  for (size_t i = 0; i < at.size(); ++i) {
    flat = ir::add(g, ir::mul_const(g, flat, sizes[i]), at[i]);
  }
  return flat;
}

}  // namespace

const Node* add_local_buffers(Graph& g, const Node* root, const CodegenOptions&) {
  std::map<const Node*, std::vector<int64_t>> sizes;  // rebuilt state -> its block
  return map_graph(g, root, [&](const Node* n, const NodeVec& src) -> const Node* {
    if (n->op == Op::kStage && n->as<ir::StageArg>().addrspace == ir::AddrSpace::kLocal) {
      std::vector<int64_t> block;
      int64_t count = 1;
      for (const Node* r : n->src().subspan(1)) {
        block.push_back(range_size(g, r));
        count *= block.back();
      }
      const Node* memory = ir::buffer(g, g.fresh(), n->dtype, count, ir::AddrSpace::kLocal, "");
      const std::span<const Node* const> at(src.data() + 1, src.size() - 1);
      const Node* target = g.make(Op::kIndex, n->dtype, {memory, flat_index(g, at, block)});
      NodeVec end{g.make(Op::kStore, ir::DType::kVoid, {target, src[0]})};
      end.insert(end.end(), at.begin(), at.end());
      const Node* state = after(g, memory, {g.make(Op::kEnd, ir::DType::kVoid, end)});
      sizes[state] = std::move(block);
      return state;
    }
    const auto it = n->op == Op::kIndex ? sizes.find(src[0]) : sizes.end();
    if (it == sizes.end()) return rebuilt(g, n, src);
    const std::span<const Node* const> at(src.data() + 1, src.size() - 1);
    return g.make(Op::kIndex, n->dtype, {src[0], flat_index(g, at, it->second)});
  });
}

}  // namespace modeld::codegen
