#include "runtime/ir/base_storage.h"

#include "runtime/ir/memo.h"

namespace modeld::ir {

bool is_view_op(const Node* n) {
  static constexpr OpSet kViewOps =
      kMovementOps |
      OpSet{Op::kCast, Op::kBitCast, Op::kIndex, Op::kContiguous, Op::kDetach, Op::kUnshard};
  return kViewOps.has(n->op);
}

const Node* base_storage(Graph& g, const Node* n) {
  std::vector<const Node*>& memo = g.memo().base_storage;
  NodeVec chain;
  while (n->op == Op::kAfter || is_view_op(n)) {
    const Node* known = memo_at(memo, n);
    if (known != nullptr) {
      n = known;
      break;
    }
    chain.push_back(n);
    n = n->src(0);
  }
  for (const Node* c : chain) memo_at(memo, c) = n;
  return n;
}

}  // namespace modeld::ir
