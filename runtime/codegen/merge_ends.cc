// merge_ends. Needs REDUCE nodes that are still values. Gives: stores of one kernel over the same
// loops in one END, so that they share the loops; an END that shares only some of its loops with
// another, or waits for it, gets loops of its own. A RANGE is closed by one END from here on.
#include <algorithm>
#include <map>
#include <set>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

std::vector<uint32_t> sorted_ids(const Node* end) {
  std::vector<uint32_t> ids;
  for (const Node* r : end->src().subspan(1)) ids.push_back(r->id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool holds_end(const Node* n) {
  for (const Node* s : ir::toposort(n)) {
    if (s->op == Op::kEnd) return true;
  }
  return false;
}

const Node* with_own_loops(Graph& g, const Node* end, const std::set<const Node*>& taken) {
  ir::NodeMap map;
  for (const Node* r : end->src().subspan(1)) {
    if (!taken.contains(r)) continue;
    map[r] = ir::range(g, range_size(g, r), g.fresh(), r->as<ir::RangeArg>().type);
  }
  if (map.empty()) return end;
  NodeVec src{rename_open_ranges(g, end->src(0), map)};
  for (const Node* r : end->src().subspan(1)) {
    const auto it = map.find(r);
    src.push_back(it == map.end() ? r : it->second);
  }
  return g.with_src(end, src);
}

}  // namespace

const Node* merge_ends(Graph& g, const Node* root, const CodegenOptions&) {
  std::map<std::vector<uint32_t>, NodeVec> together;  // ENDs by their loops
  NodeVec firsts;                                     // in order: one END of each kind, the rest
  for (const Node* n : root->src()) {
    const bool is_plain = n->op == Op::kEnd && !holds_end(n->src(0));
    NodeVec* same = is_plain ? &together[sorted_ids(n)] : nullptr;
    if (same == nullptr || same->empty()) firsts.push_back(n);
    if (same != nullptr) same->push_back(n);
  }
  NodeVec src;
  std::set<const Node*> taken;
  for (const Node* n : firsts) {
    if (n->op != Op::kEnd) {
      src.push_back(n);
      continue;
    }
    const Node* end = n;
    if (const auto it = together.find(sorted_ids(n)); it != together.end() && it->second[0] == n) {
      NodeVec bodies;
      for (const Node* e : it->second) bodies.push_back(e->src(0));
      NodeVec merged(n->src().begin(), n->src().end());
      merged[0] = group(g, bodies);
      end = g.with_src(n, merged);
    }
    src.push_back(with_own_loops(g, end, taken));
    taken.insert(n->src().begin() + 1, n->src().end());
  }
  return rebuilt(g, root, src);
}

}  // namespace modeld::codegen
