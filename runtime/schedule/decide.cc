#include "runtime/schedule/decide.h"

#include <algorithm>

#include "runtime/ir/derived.h"
#include "runtime/ir/symbolic.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::Op;

bool is_never_staged(const Node* n) {
  static constexpr ir::OpSet kNever = {Op::kBuffer, Op::kParam,   Op::kAfter,
                                       Op::kConst,  Op::kMSelect, Op::kMStack};
  return kNever.has(n->op);
}

namespace {

bool same_indices(const std::vector<Access>& consumers) {
  return std::all_of(consumers.begin(), consumers.end(),
                     [&](const Access& a) { return a.idx == consumers.front().idx; });
}

// The terms of a mask that speak only of loops the indices run over. Other loops may be open in one
// consumer and not in another; dropping their terms only makes the mask wider.
const Node* shared_terms(Graph& g, const Node* valid, const ir::NodeVec& idx) {
  if (valid == nullptr) return nullptr;
  const Node* kept = nullptr;
  for (const Node* term : ir::split_and(valid)) {
    const ir::NodeVec loops = ir::ranges(g, term);
    const bool inside = std::all_of(loops.begin(), loops.end(), [&](const Node* r) {
      return std::any_of(idx.begin(), idx.end(),
                         [&](const Node* i) { return ir::depends_on(g, i, r); });
    });
    if (inside) kept = and_valid(g, kept, term);
  }
  return kept;
}

// The OR of all consumers' masks.
const Node* merge_masks(Graph& g, const std::vector<Access>& consumers) {
  const Node* first = consumers.front().valid;
  const bool all_same = std::all_of(consumers.begin(), consumers.end(),
                                    [first](const Access& a) { return a.valid == first; });
  if (all_same) return first;
  const Node* any = shared_terms(g, first, consumers.front().idx);
  for (const Access& a : consumers) any = or_valid(g, any, shared_terms(g, a.valid, a.idx));
  return any;
}

}  // namespace

Decision decide(Graph& g, const DecideInput& in) {
  Decision d;
  if (is_never_staged(in.node)) return d;
  if (in.marked) {
    d.kind = Decision::Kind::kRealize;
    d.clears_ending = true;
    return d;
  }
  if (in.consumers.empty()) return d;
  if (!same_indices(in.consumers)) {
    d.kind = Decision::Kind::kRealize;
  } else {
    d.kind = Decision::Kind::kInherit;
    d.out = in.consumers.front();
    d.out.valid = merge_masks(g, in.consumers);
  }
  // Work that a loop opened further down would run again gets memory; movement ops only pass the
  // question on.
  if (in.has_ending && (ir::kElementwiseOps.has(in.node->op) || in.node->op == Op::kReduce)) {
    d.kind = Decision::Kind::kRealize;
    d.clears_ending = true;
    d.out = {};
  }
  return d;
}

}  // namespace modeld::schedule
