#include "runtime/codegen/cfg_context.h"

#include <algorithm>
#include <set>
#include <vector>

namespace modeld::codegen {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

// Node ids of the RANGEs and ENDs something depends on, itself included.
using Deps = std::set<uint32_t>;

struct Loops {
  std::vector<Deps> deps;                                 // by node id
  std::vector<std::pair<const Node*, NodeVec>> siblings;  // parent (END or SINK) -> ENDs in it
};

void add_child(Loops& loops, const Node* parent, const Node* child) {
  for (auto& [p, children] : loops.siblings) {
    if (p == parent) {
      children.push_back(child);
      return;
    }
  }
  loops.siblings.push_back({parent, {child}});
}

Loops find_loops(const Node* sink) {
  Loops out;
  std::set<uint32_t> placed;
  NodeVec ends;
  for (const Node* n : ir::toposort(sink)) {
    if (out.deps.size() <= n->id) out.deps.resize(n->id + size_t{1});
    Deps& mine = out.deps[n->id];
    for (const Node* s : n->src()) mine.insert(out.deps[s->id].begin(), out.deps[s->id].end());
    if (n->op == Op::kEnd || n->op == Op::kSink) {
      for (const Node* e : ends) {
        if (placed.contains(e->id) || !mine.contains(e->id)) continue;
        // An END whose body used this loop's RANGE lies inside it.
        if (n->op != Op::kSink && !out.deps[e->id].contains(n->src(1)->id)) continue;
        placed.insert(e->id);
        add_child(out, n, e);
      }
    }
    if (n->op == Op::kEnd) ends.push_back(n);
    if (n->op == Op::kEnd || n->op == Op::kRange) mine.insert(n->id);
  }
  return out;
}

}  // namespace

CFGContext::CFGContext(Graph& g, const Node* sink) {
  const Loops loops = find_loops(sink);
  for (const auto& [parent, children] : loops.siblings) {
    std::vector<std::pair<size_t, const Node*>> order;
    for (const Node* x : children) {
      size_t needs = 0;
      for (const Node* y : children) {
        needs += y != x && loops.deps[x->id].contains(y->id) ? 1 : 0;
      }
      order.emplace_back(needs, x);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const Node* previous = parent->op == Op::kSink ? nullptr : parent->src(1);
    for (const auto& [needs, end] : order) {
      const Node* range = end->src(1);
      if (previous != nullptr && loops.deps[previous->id].contains(range->id)) {
        g.fail(Errc::kCycle, strf("control flow: loop %lld would have to start before something "
                                  "it depends on",
                                  static_cast<long long>(range->as<ir::RangeArg>().id)));
        return;
      }
      if (previous != nullptr) edges_[range] = previous;
      previous = end;
    }
  }
}

const Node* CFGContext::edge(const Node* range) const {
  const auto it = edges_.find(range);
  return it == edges_.end() ? nullptr : it->second;
}

}  // namespace modeld::codegen
