// control_flow. Needs single-range ENDs and final memory order. Gives: RANGE nodes with extra
// sources, so that every topological order nests loops and runs siblings one after another.
#include <set>

#include "runtime/codegen/cfg_context.h"
#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

// Sources of n and, for a RANGE, what it must come after. Iterative: the extra edges make an order
// that toposort() does not know.
class Sequencer {
 public:
  Sequencer(Graph& g, const CFGContext& cfg) : g_(g), cfg_(cfg) {}

  const Node* run(const Node* root) {
    std::vector<std::pair<const Node*, size_t>> stack{{root, 0}};
    std::set<uint32_t> open{root->id};
    while (!stack.empty()) {
      auto& [n, next] = stack.back();
      const Node* edge = n->op == Op::kRange ? cfg_.edge(n) : nullptr;
      const size_t count = n->nsrc + (edge != nullptr ? 1U : 0U);
      if (next < count) {
        const Node* s = next < n->nsrc ? n->src(next) : edge;
        ++next;
        if (done_.get(s) != nullptr) continue;
        if (!open.insert(s->id).second) {
          g_.fail(Errc::kCycle,
                  "control flow: a RANGE would have to precede something it "
                  "depends on");
          return root;
        }
        stack.emplace_back(s, 0);
        continue;
      }
      NodeVec src;
      for (const Node* s : n->src()) src.push_back(done_.get(s));
      if (edge != nullptr) src.push_back(done_.get(edge));
      done_.set(n, rebuilt(g_, n, src));
      open.erase(n->id);
      stack.pop_back();
    }
    return done_.get(root);
  }

 private:
  Graph& g_;
  const CFGContext& cfg_;
  NodeTable done_;
};

}  // namespace

const Node* control_flow(Graph& g, const Node* root, const CodegenOptions&) {
  const CFGContext cfg(g, root);
  if (g.failed()) return root;
  return Sequencer(g, cfg).run(root);
}

}  // namespace modeld::codegen
