// Template bodies of graph.h.
#pragma once

#include <unordered_set>
#include <utility>
#include <vector>

namespace modeld::ir {

// Marks visited nodes by id with an epoch per walk, so that a walk over few nodes of a large arena
// costs only those nodes. Walks may nest (a stop callback that walks): inner ones use a hash set.
// Threading: one per thread.
class VisitSet {
 public:
  VisitSet() : outer_(depth()++ == 0) {
    if (outer_) ++epoch();
  }
  ~VisitSet() { --depth(); }
  VisitSet(const VisitSet&) = delete;
  VisitSet& operator=(const VisitSet&) = delete;
  bool insert(const Node* n) {
    if (!outer_) return set_.insert(n).second;
    std::vector<uint32_t>& m = marks();
    if (m.size() <= n->id) m.resize(static_cast<size_t>(n->id) * 3 / 2 + 64);
    if (m[n->id] == epoch()) return false;
    m[n->id] = epoch();
    return true;
  }

 private:
  static int& depth() {
    thread_local int value = 0;
    return value;
  }
  static uint32_t& epoch() {
    thread_local uint32_t value = 0;
    return value;
  }
  static std::vector<uint32_t>& marks() {
    thread_local std::vector<uint32_t> value;
    return value;
  }
  bool outer_;
  std::unordered_set<const Node*> set_;
};

template <class Stop>
NodeVec toposort_until(const Node* root, Stop stop, bool enter_calls) {
  NodeVec out;
  VisitSet seen;
  struct Frame {
    const Node* node;
    uint32_t next;
    uint32_t end;
  };
  std::vector<Frame> stack;
  auto push = [&](const Node* n) {
    if (!seen.insert(n)) return;
    const bool skip_body = !enter_calls && (n->op == Op::kCall || n->op == Op::kFunction);
    const uint32_t end = stop(n) ? 0 : n->nsrc;
    stack.push_back({n, skip_body ? 1U : 0U, end});
  };
  push(root);
  while (!stack.empty()) {
    Frame& f = stack.back();
    if (f.next < f.end) {
      push(f.node->src(f.next++));
      continue;
    }
    out.push_back(f.node);
    stack.pop_back();
  }
  return out;
}

}  // namespace modeld::ir
