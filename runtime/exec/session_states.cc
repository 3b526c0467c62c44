#include "runtime/exec/session_states.h"

#include <algorithm>
#include <unordered_set>

#include "runtime/schedule/byte_view.h"
#include "runtime/schedule/expr_util.h"

namespace modeld::exec {

using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

// Through nodes that give their source's value unchanged.
const Node* viewed(const Node* n) {
  while (true) {
    const Node* below = schedule::below_views(n);
    if (below->op == Op::kContiguous || below->op == Op::kContiguousBackward) below = below->src(0);
    if (below == n) return n;
    n = below;
  }
}

class Walk {
 public:
  explicit Walk(const schedule::CallAndMap& call) : call_(call) {
    for (const schedule::StateWrite& w : call.writes) superseded_.insert(w.previous);
    const NodeVec written = written_buffers(call);
    written_.insert(written.begin(), written.end());
  }

  void run(std::span<const Node* const> live) {
    std::vector<const Node*> stack(live.rbegin(), live.rend());
    while (!stack.empty()) {
      const Node* n = stack.back();
      stack.pop_back();
      if (!seen_.insert(n) || stops_at(n)) continue;
      for (size_t i = n->nsrc; i-- > 0;) stack.push_back(n->src(i));
    }
  }

  StaleReads found;

 private:
  // True: what lies below no longer matters to the reader.
  bool stops_at(const Node* n) {
    if (schedule::is_scalar_param(n)) return true;
    if (superseded_.contains(n)) {
      found.states.push_back(n);
      return true;
    }
    const auto at = call_.map.find(n);
    if (at == call_.map.end()) return false;
    if (!written_.contains(schedule::below_views(at->second))) return true;
    if (!superseded_.contains(viewed(n))) return true;
    found.keys.push_back(n);
    return false;
  }

  const schedule::CallAndMap& call_;
  std::unordered_set<const Node*> superseded_, written_;
  ir::VisitSet seen_;
};

}  // namespace

Result<StaleReads> stale_reads(const schedule::CallAndMap& call,
                               std::span<const Node* const> live) {
  std::unordered_set<const Node*> superseded;
  for (const schedule::StateWrite& w : call.writes) {
    if (!superseded.insert(w.previous).second)
      return fail(ir::Fault::kStaleReader,
                  strf("realize: two writes supersede the same contents of %s",
                       ir::op_name(w.previous->op)));
  }
  Walk walk(call);
  walk.run(live);
  return std::move(walk.found);
}

NodeVec buffers_below(std::span<const Node* const> nodes) {
  NodeVec found;
  ir::VisitSet seen;
  std::vector<const Node*> stack(nodes.rbegin(), nodes.rend());
  while (!stack.empty()) {
    const Node* n = stack.back();
    stack.pop_back();
    if (!seen.insert(n)) continue;
    if (n->op == Op::kBuffer) found.push_back(n);
    for (size_t i = n->nsrc; i-- > 0;) stack.push_back(n->src(i));
  }
  return found;
}

NodeVec written_buffers(const schedule::CallAndMap& call) {
  NodeVec found;
  for (const schedule::StateWrite& w : call.writes) {
    const auto at = call.map.find(w.state);
    if (at == call.map.end()) continue;
    const Node* buffer = schedule::below_views(at->second);
    if (std::find(found.begin(), found.end(), buffer) == found.end()) found.push_back(buffer);
  }
  return found;
}

}  // namespace modeld::exec
