// implicit_barriers. Needs all loads and stores final. Gives: BARRIERs of the work group wherever
// one item may read what another wrote. RAW: a state of local memory is only reached through a
// barrier behind its stores. WAR: a loop that stores to local memory and loads it again ends in a
// barrier, so that no item's next round overwrites what a slower one still reads. One that is there
// already is not doubled.
#include <algorithm>
#include <set>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::AxisType;
using ir::NodeVec;
using ir::Op;

const Node* local_root(const Node* access) {
  if (access->op != Op::kLoad && access->op != Op::kStore) return nullptr;
  const Node* root = memory_root(access->src(0));
  const bool local = root != nullptr && memory_space(root) == ir::AddrSpace::kLocal;
  return local ? root : nullptr;
}

// Local stores among what is below the nodes, down to the previous barrier.
bool stores_locally(std::span<const Node* const> deps) {
  for (const Node* d : deps) {
    for (const Node* n :
         ir::toposort_until(d, [](const Node* s) { return s->op == Op::kBarrier; })) {
      if (n->op == Op::kStore && local_root(n) != nullptr) return true;
    }
  }
  return false;
}

const Node* barrier(Graph& g, const NodeVec& deps) {
  return g.make(Op::kBarrier, ir::DType::kVoid, deps);
}

const Node* raw_barrier(Graph& g, const Node* n) {
  const Node* root = memory_root(n);
  if (root == nullptr || memory_space(root) != ir::AddrSpace::kLocal) return n;
  if (!stores_locally(n->src().subspan(1))) return n;
  return g.make(Op::kAfter, n->dtype,
                {n->src(0), barrier(g, {n->src().begin() + 1, n->src().end()})});
}

// The loads of local buffers that the same round of the loop has stored.
NodeVec overwritten_loads(Graph& g, const Node* body, const Node* loop) {
  std::set<const Node*> stored;
  NodeVec loads;
  const NodeVec order = ir::toposort(body);
  for (const Node* n : order) {
    const Node* root = local_root(n);
    if (root != nullptr && n->op == Op::kStore && ir::depends_on(g, n, loop)) stored.insert(root);
  }
  for (const Node* n : order) {
    const Node* root = local_root(n);
    const bool again = root != nullptr && n->op == Op::kLoad && stored.contains(root);
    if (again && ir::depends_on(g, n, loop)) loads.push_back(n);
  }
  return loads;
}

const Node* war_barrier(Graph& g, const Node* n) {
  const Node* loop = n->src(1);
  const AxisType t = loop->as<ir::RangeArg>().type;
  const bool repeats = t == AxisType::kReduce || t == AxisType::kWeak || t == AxisType::kLoop;
  if (!repeats || range_size(g, loop) <= 1 || n->src(0)->op == Op::kBarrier) return n;
  NodeVec deps = overwritten_loads(g, n->src(0), loop);
  if (deps.empty()) return n;
  deps.insert(deps.begin(), n->src(0));
  return g.with_src(n, {barrier(g, deps), loop});
}

}  // namespace

const Node* implicit_barriers(Graph& g, const Node* root, const CodegenOptions& o) {
  if (!o.caps.has_locals) return root;
  return map_graph(g, root, [&](const Node* n, const NodeVec& src) -> const Node* {
    const Node* same = rebuilt(g, n, src);
    if (same->op == Op::kAfter) return raw_barrier(g, same);
    return same->op == Op::kEnd && same->nsrc == 2 ? war_barrier(g, same) : same;
  });
}

}  // namespace modeld::codegen
