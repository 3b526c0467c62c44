// simplify_ranges. Needs canonical index math and flat range lists. Gives: fewer loops: two ranges
// of one type that close together become one if the number of divisions does not rise, and an
// output range whose stores are all gated by r < c shrinks to c.
#include <algorithm>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

constexpr int kMaxMerges = 32;

int64_t division_count(const Node* root) {
  int64_t n = 0;
  for (const Node* s : ir::toposort(root)) {
    n +=
        s->op == Op::kFloorDiv || s->op == Op::kFloorMod || s->op == Op::kCDiv || s->op == Op::kCMod
            ? 1
            : 0;
  }
  return n;
}

bool closes(const Node* n, const Node* r) {
  return std::find(n->src().begin() + 1, n->src().end(), r) != n->src().end();
}

// Both or neither in everything that closes ranges, and in what every reduce depends on.
bool go_together(Graph& g, const NodeVec& order, const Node* a, const Node* b) {
  if (a->as<ir::RangeArg>().type != b->as<ir::RangeArg>().type) return false;
  if (!ir::is_const(a->src(0)) || !ir::is_const(b->src(0))) return false;
  for (const Node* n : order) {
    if (!closes_ranges(n)) continue;
    if (closes(n, a) != closes(n, b)) return false;
    if (n->op == Op::kReduce && ir::depends_on(g, n, a) != ir::depends_on(g, n, b)) return false;
  }
  return true;
}

const Node* try_merge(Graph& g, const Node* root, const Node* a, const Node* b) {
  const int64_t size_b = range_size(g, b);
  const auto& arg = a->as<ir::RangeArg>();
  const Node* merged = ir::range(g, range_size(g, a) * size_b, arg.id, arg.type);
  const Node* c = ir::const_int(g, size_b);
  const ir::NodeMap map{{a, ir::alu(g, Op::kFloorDiv, {merged, c})},
                        {b, ir::alu(g, Op::kFloorMod, {merged, c})}};
  const Node* next = ir::rewrite(g, replace_ranges(g, root, map), ir::symbolic_rules());
  next = flatten_ranges(g, next);
  return division_count(next) <= division_count(root) ? next : nullptr;
}

// One merge, or null.
const Node* merge_one(Graph& g, const Node* root) {
  const NodeVec order = ir::toposort(root);
  for (const Node* n : order) {
    if (!closes_ranges(n)) continue;
    for (size_t i = 1; i < n->nsrc; ++i) {
      for (size_t k = 1; k < n->nsrc; ++k) {
        const bool wanted = n->op == Op::kEnd ? k == i + 1 : k != i;
        if (!wanted || !go_together(g, order, n->src(i), n->src(k))) continue;
        if (const Node* next = try_merge(g, root, n->src(i), n->src(k))) return next;
        if (g.failed()) return nullptr;
      }
    }
  }
  return nullptr;
}

// c when the gate holds a clause r < c, else the size of r.
int64_t gated_size(Graph& g, const Node* gate, const Node* r) {
  const int64_t size = range_size(g, r);
  if (gate == nullptr) return size;
  for (const Node* clause : ir::split_and(gate)) {
    if (clause->op != Op::kCmpLt || clause->src(0) != r) continue;
    if (const auto c = ir::int_value(clause->src(1))) return std::clamp<int64_t>(*c, 1, size);
  }
  return size;
}

const Node* shrink_gated(Graph& g, const Node* root) {
  std::unordered_map<const Node*, int64_t> need;
  for (const Node* n : ir::toposort(root)) {
    if (n->op != Op::kEnd) continue;
    for (const Node* s : ir::toposort(n->src(0))) {
      if (s->op != Op::kStore) continue;
      const Node* gate = s->src(0)->op == Op::kIndex ? split_gate(s->src(0)->src(1)).gate : nullptr;
      for (const Node* r : n->src().subspan(1)) {
        if (r->op == Op::kRange) need[r] = std::max(need[r], gated_size(g, gate, r));
      }
    }
  }
  ir::NodeMap map;
  for (const auto& [r, size] : need) {
    if (!ir::is_const(r->src(0)) || size >= range_size(g, r) || size == 0) continue;
    map[r] = ir::range(g, size, r->as<ir::RangeArg>().id, r->as<ir::RangeArg>().type);
  }
  return map.empty() ? root : replace_ranges(g, root, map);
}

}  // namespace

const Node* simplify_ranges(Graph& g, const Node* root, const CodegenOptions&) {
  root = shrink_gated(g, root);
  for (int i = 0; i < kMaxMerges; ++i) {
    const Node* next = merge_one(g, root);
    if (next == nullptr || g.failed()) return root;
    root = next;
  }
  return root;
}

}  // namespace modeld::codegen
