// Movement ops of sharded values act on the parts. Those that would move elements across were
// refused before (multi_check.h).
#include <algorithm>

#include "runtime/ir/derived.h"
#include "runtime/schedule/multi.h"
#include "runtime/schedule/multi_check.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using ir::Sharding;

namespace {

using Dims = std::vector<int64_t>;

Sharding sharding_of(const Node* unshard) {
  return {unshard->as<ir::Ints>(), NodeVec(unshard->src().begin() + 1, unshard->src().end())};
}

// Global dims -> those of one part.
ir::Ints local_dims(Graph& g, const Dims& dims, const Sharding& s) {
  ir::Ints out(dims.begin(), dims.end());
  for (size_t i = 0; i < s.axes.size(); i++) {
    out[static_cast<size_t>(s.axes[i])] /= ir::part_count(g, s.coords[i]);
  }
  return out;
}

NodeVec operands(const Node* stack) {
  return stack->op == Op::kStack ? NodeVec(stack->src().begin(), stack->src().end())
                                 : NodeVec{stack};
}

const Node* stack_of(Graph& g, const NodeVec& v) {
  return g.make(Op::kStack, v.empty() ? ir::DType::kVoid : ir::DType::kWeakInt, v);
}

const Node* reshape_multi(Graph& g, const Node* n) {
  const Dims out = ir::max_shape(g, n);
  const Sharding to = ir::sharding(g, n);
  const Node* dims = ir::shape_node(g, local_dims(g, out, to));
  return ir::unshard(g, g.with_src(n, {n->src(0)->src(0), dims}), to);
}

// Permute, expand, flip: same argument on the part; the axes follow as the derived property says.
const Node* pass_through(Graph& g, const Node* n) {
  NodeVec src(n->src().begin(), n->src().end());
  src[0] = src[0]->src(0);
  const Sharding to = ir::sharding(g, n);
  return ir::unshard(g, g.with_src(n, src), to);
}

const Node* pad_multi(Graph& g, const Node* n, const Sharding& s) {
  NodeVec sizes = operands(n->src(2));
  for (const int64_t a : s.axes) {
    sizes[static_cast<size_t>(a)] = ir::shape(g, n->src(0)->src(0))[static_cast<size_t>(a)];
  }
  return ir::unshard(g, g.with_src(n, {n->src(0)->src(0), n->src(1), stack_of(g, sizes)}), s);
}

// ---- shrink ----

const Node* shrink_multi(Multi& m, const Node* n, const Sharding& s) {
  Graph& g = m.g;
  const Node* local = n->src(0)->src(0);
  const ShrinkReach reach = shrink_reach(g, n);
  NodeVec starts = operands(n->src(1)), sizes = operands(n->src(2));
  for (const int64_t a : s.axes) {
    starts[static_cast<size_t>(a)] = ir::const_int(g, 0);
    sizes[static_cast<size_t>(a)] = ir::shape(g, local)[static_cast<size_t>(a)];
  }
  const Node* kept = g.with_src(n, {local, stack_of(g, starts), stack_of(g, sizes)});
  if (reach.kind == ShrinkReach::Kind::kWhole) return ir::unshard(g, kept, s);
  if (reach.kind == ShrinkReach::Kind::kOwnPart) return kept;
  const int64_t device = device_holding(m, s, reach.parts);
  const std::string devices = ir::device(g, local);
  if (devices.empty()) return m.storage.on_device(kept, device);
  return g.make(Op::kCopy, n->dtype, {m.storage.part_of(kept, device)}, devices);
}

}  // namespace

const Node* movement_multi(Multi& m, const Node* n) {
  if (n->src(0)->op != Op::kUnshard) return nullptr;
  const Sharding s = sharding_of(n->src(0));
  switch (n->op) {
    case Op::kReshape:
      return reshape_multi(m.g, n);
    case Op::kPad:
      return pad_multi(m.g, n, s);
    case Op::kShrink:
      return shrink_multi(m, n, s);
    default:
      return pass_through(m.g, n);
  }
}

const Node* shrink_before_copy(Graph& g, const Node* n) {
  const Node* copy = n->src(0);
  if (copy->op != Op::kCopy || !ir::is_device_tuple(copy->as<std::string>())) return nullptr;
  const Node* x = copy->src(0);
  if (ir::is_device_tuple(ir::device(g, x)) || ir::device(g, x).empty()) return nullptr;
  MultiStorage storage(g);
  const std::vector<std::string> devices = ir::split_devices(copy->as<std::string>());
  NodeVec parts;
  for (size_t i = 0; i < devices.size(); i++) {
    const auto at = static_cast<int64_t>(i);
    const Node* wanted =
        g.make(Op::kShrink, x->dtype,
               {x, storage.on_device(n->src(1), at), storage.on_device(n->src(2), at)});
    parts.push_back(g.make(Op::kCopy, x->dtype, {wanted}, devices[i]));
  }
  return g.make(Op::kMStack, x->dtype, parts);
}

}  // namespace modeld::schedule
