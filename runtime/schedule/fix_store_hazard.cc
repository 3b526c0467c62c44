#include "runtime/schedule/fix_store_hazard.h"

#include <unordered_set>

#include "runtime/ir/base_storage.h"
#include "runtime/ir/derived.h"
#include "runtime/schedule/expr_util.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

// Nodes of the value down to states; what is CONTIGUOUS is computed before the store anyway, and
// the target itself is read exactly where it is written.
NodeVec read_nodes(const Node* value, const Node* target) {
  return ir::toposort_until(value, [target](const Node* n) {
    return n == target || n->op == Op::kContiguous || is_state(n);
  });
}

// True if an element of `n` comes from other places of its source than its own.
bool moves_elements(Graph& g, const Node* n, const Node* source) {
  static constexpr ir::OpSet kMoves = {Op::kPermute, Op::kFlip,   Op::kShrink, Op::kPad,
                                       Op::kExpand,  Op::kReduce, Op::kIndex,  Op::kStack};
  if (kMoves.has(n->op)) return true;
  if (!ir::kElementwiseOps.has(n->op)) return false;
  return ir::element_count(g, n) != ir::element_count(g, source);  // broadcast
}

// True if the target shows its buffer in another order or in part: then only a read through the
// very same view lines up with it.
bool is_moved_view(Graph& g, const Node* target) {
  for (; !is_state(target) && target->nsrc > 0; target = target->src(0)) {
    if (moves_elements(g, target, target->src(0))) return true;
  }
  return false;
}

}  // namespace

const Node* fix_store_hazard(Graph& g, const Node* store) {
  const Node* target = store->src(0);
  const Node* value = store->src(1);
  if (value->op == Op::kContiguous) return nullptr;
  const Node* buffer = ir::base_storage(g, target);
  std::unordered_set<const Node*> reads;  // nodes that reach the buffer, unmoved or moved
  std::unordered_set<const Node*> moved;
  const bool is_moved = is_moved_view(g, target);
  for (const Node* n : read_nodes(value, target)) {
    if (n == target) {
      reads.insert(n);
      continue;
    }
    if (is_state(n)) {
      if (ir::base_storage(g, n) != buffer) continue;
      reads.insert(n);
      if (is_moved) moved.insert(n);
      continue;
    }
    if (n->op == Op::kContiguous) continue;
    for (const Node* s : n->src()) {
      if (!reads.contains(s)) continue;
      reads.insert(n);
      if (moved.contains(s) || moves_elements(g, n, s)) moved.insert(n);
    }
  }
  // A value that is whole-buffer shaped while the target is a part of it cannot line up.
  const bool lines_up =
      !reads.contains(value) || ir::element_count(g, value) == ir::element_count(g, target);
  if (!moved.contains(value) && lines_up) return nullptr;
  const Node* whole = g.make(Op::kContiguous, value->dtype, {value});
  NodeVec src(store->src().begin(), store->src().end());
  src[1] = whole;
  return g.with_src(store, src);
}

}  // namespace modeld::schedule
