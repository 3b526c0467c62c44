// alu_multi: elementwise work on sharded operands runs on the parts, without a transfer when all
// operands are sharded alike or whole. Operands sharded otherwise are gathered and cut again: the
// last sharded operand decides how. STACK, INDEX and STORE follow the same rule.
#include <algorithm>

#include "runtime/ir/derived.h"
#include "runtime/schedule/multi.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using ir::Sharding;

namespace {

Sharding sharding_of(const Node* n) {
  if (n->op != Op::kUnshard) return {};
  return {n->as<ir::Ints>(), NodeVec(n->src().begin() + 1, n->src().end())};
}

Sharding shifted(Sharding s, int64_t by) {
  for (int64_t& a : s.axes) a += by;
  return s;
}

int64_t rank_of(Graph& g, const Node* n) {
  return static_cast<int64_t>(ir::shape(g, n).size());
}

bool any_sharded(const Node* n) {
  return n->child_ops.has(Op::kUnshard);
}

// Elements of whole `x` along `axis` that this device's part has.
const Node* cut(Graph& g, const Node* x, size_t axis, const Node* coord) {
  const std::vector<int64_t> dims = ir::max_shape(g, x);
  const int64_t part = dims[axis] / ir::part_count(g, coord);
  NodeVec starts(dims.size(), ir::const_int(g, 0));
  starts[axis] = ir::mul_const(g, coord, part);
  ir::Ints sizes(dims.begin(), dims.end());
  sizes[axis] = part;
  const Node* start = g.make(Op::kStack, ir::DType::kWeakInt, starts);
  return g.make(Op::kShrink, x->dtype, {x, start, ir::shape_node(g, sizes)});
}

// The sharding of the result: that of the last sharded operand, in the result's axes.
Sharding target_of(Graph& g, const Node* n, int64_t rank) {
  Sharding target;
  for (const Node* s : n->src()) {
    if (s->op == Op::kUnshard) target = shifted(sharding_of(s), rank - rank_of(g, s));
  }
  return target;
}

}  // namespace

const Node* local_part(Multi& m, const Node* x, const Sharding& target, size_t rank) {
  const int64_t shift = static_cast<int64_t>(rank) - rank_of(m.g, x);
  if (x->op == Op::kUnshard) {
    if (shifted(sharding_of(x), shift) == target) return x->src(0);
    x = gather_multi(m, x, ir::device(m.g, x));
  }
  for (size_t i = 0; i < target.axes.size(); i++) {
    const int64_t axis = target.axes[i] - shift;
    if (axis < 0 || ir::is_int_const(ir::shape(m.g, x)[static_cast<size_t>(axis)], 1)) continue;
    x = cut(m.g, x, static_cast<size_t>(axis), target.coords[i]);
  }
  return x;
}

const Node* alu_multi(Multi& m, const Node* n) {
  if (!any_sharded(n)) return nullptr;
  const int64_t rank = rank_of(m.g, n);
  const Sharding target = target_of(m.g, n, rank);
  NodeVec src;
  for (const Node* s : n->src()) {
    src.push_back(local_part(m, s, target, static_cast<size_t>(rank)));
  }
  return ir::unshard(m.g, m.g.with_src(n, src), target);
}

const Node* stack_multi(Multi& m, const Node* n) {
  if (!any_sharded(n)) return nullptr;
  const int64_t rank = rank_of(m.g, n->src(0));
  const Sharding target = target_of(m.g, n, rank);
  NodeVec src;
  for (const Node* s : n->src()) {
    src.push_back(local_part(m, s, target, static_cast<size_t>(rank)));
  }
  return ir::unshard(m.g, m.g.with_src(n, src), shifted(target, 1));
}

// A gather reads all of its source, so that must be whole; the last sharded index decides.
const Node* index_multi(Multi& m, const Node* n) {
  if (!any_sharded(n)) return nullptr;
  NodeVec src(n->src().begin(), n->src().end());
  size_t last = 0;
  for (size_t i = 1; i < src.size(); i++) {
    if (src[i]->op == Op::kUnshard) last = i;
  }
  int64_t before = 0;
  for (size_t i = 0; i < src.size(); i++) {
    if (i > 0 && i < last) before += rank_of(m.g, src[i]);
    if (i != last || i == 0) {
      if (src[i]->op == Op::kUnshard) src[i] = gather_multi(m, src[i], ir::device(m.g, src[i]));
    }
  }
  if (last == 0) return m.g.with_src(n, src);
  const Sharding s = shifted(sharding_of(src[last]), before);
  src[last] = src[last]->src(0);
  return ir::unshard(m.g, m.g.with_src(n, src), s);
}

const Node* store_multi(Multi& m, const Node* n) {
  NodeVec src(n->src().begin(), n->src().end());
  if (any_sharded(n)) {
    const Sharding target = sharding_of(src[0]);
    const auto rank = static_cast<size_t>(rank_of(m.g, src[0]));
    if (!target.empty()) src[0] = src[0]->src(0);
    src[1] = local_part(m, src[1], target, rank);
    return m.g.with_src(n, src);
  }
  // A transfer into a whole buffer lands there; on its way it takes every hop.
  if (m.storage.is_own(src[0])) return nullptr;
  const Node* value = m.storage.flat_state(src[1]);
  const Node* sent = value == nullptr ? nullptr : m.storage.source_of(value);
  const Node* target = m.storage.flat_state(src[0]);
  if (sent == nullptr || target == nullptr) return nullptr;
  if (ir::element_count(m.g, target) != ir::element_count(m.g, sent)) return nullptr;
  return m.g.with_src(n, {target, sent});
}

}  // namespace modeld::schedule
