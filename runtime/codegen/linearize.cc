#include "runtime/codegen/linearize.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "runtime/codegen/ins_tag.h"
#include "runtime/ir/derived.h"

namespace modeld::codegen {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

struct Rank {
  int64_t runs = 1;   // how often the node executes
  int priority = 0;   // low comes early
  int64_t extra = 0;  // slot of a PARAM
  const Node* node = nullptr;
  bool operator<(const Rank& o) const {
    if (runs != o.runs) return runs < o.runs;
    if (priority != o.priority) return priority < o.priority;
    if (extra != o.extra) return extra < o.extra;
    return ir::structural_less(node, o.node);
  }
};

int priority_of(const Node* n) {
  switch (n->op) {
    case Op::kParam:
      return -20;
    case Op::kBuffer:
      return n->as<ir::ParamArg>().addrspace == ir::AddrSpace::kLocal ? -17 : -18;
    case Op::kLoad:
      return -1;
    case Op::kStore:
      return 1;
    case Op::kIns:
      return n->tag == kInsLoad || n->tag == kInsAccRead     ? -1
             : n->tag == kInsStore || n->tag == kInsAccWrite ? 1
                                                             : 0;
    case Op::kRange:
      return 5;
    case Op::kEnd:
      return -5;
    default:
      return 0;
  }
}

Rank rank_of(Graph& g, const Node* n) {
  Rank r;
  r.node = n;
  r.priority = priority_of(n);
  if (n->op == Op::kParam) r.extra = n->as<ir::ParamArg>().slot;
  for (const Node* loop : ir::ranges(g, n)) {
    if (__builtin_mul_overflow(r.runs, ir::vmax(g, loop) + 1, &r.runs)) r.runs = INT64_MAX;
  }
  return r;
}

}  // namespace

NodeVec linearize(Graph& g, const Node* sink) {
  const NodeVec order = ir::toposort(sink);
  std::vector<Rank> ranks;
  ranks.reserve(order.size());
  std::unordered_map<const Node*, size_t> open_uses;
  for (const Node* n : order) {
    ranks.push_back(rank_of(g, n));
    for (const Node* s : n->src()) open_uses[s] += 1;
  }
  std::sort(ranks.begin(), ranks.end());
  std::unordered_map<const Node*, size_t> ideal;
  for (size_t i = 0; i < ranks.size(); ++i) ideal[ranks[i].node] = i;

  // From the sink backwards, always the ready node with the largest ideal position.
  std::priority_queue<std::pair<size_t, const Node*>> ready;
  ready.emplace(ideal[sink], sink);
  NodeVec out;
  while (!ready.empty()) {
    const Node* n = ready.top().second;
    ready.pop();
    out.push_back(n);
    for (const Node* s : n->src()) {
      if (--open_uses[s] == 0) ready.emplace(ideal[s], s);
    }
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace modeld::codegen
