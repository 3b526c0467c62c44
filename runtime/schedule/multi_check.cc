#include "runtime/schedule/multi_check.h"

#include <algorithm>
#include <string>

#include "runtime/ir/derived.h"
#include "runtime/ir/sharding.h"

namespace modeld::schedule {

using ir::Fault;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Sharding;

namespace {

const Node* operand(const Node* stack, int64_t axis) {
  return stack->op == Op::kStack ? stack->src(static_cast<size_t>(axis)) : stack;
}

Status refuse(Fault fault, const Node* n, int64_t axis, const char* why) {
  return fail(fault, strf("%s of %s: %s (axis %lld)", ir::op_name(n->op),
                          ir::tensor_name(n->src(0)).c_str(), why, static_cast<long long>(axis)));
}

// Operands that have devices must have the same ones.
Status check_devices(Graph& g, const Node* n) {
  const Node* first = nullptr;
  for (const Node* s : n->src()) {
    const std::string& d = ir::device(g, s);
    if (d.empty()) continue;
    if (first == nullptr) first = s;
    const std::string& want = ir::device(g, first);
    if (d == want || !(ir::is_device_tuple(d) || ir::is_device_tuple(want))) continue;
    return fail(
        Fault::kDeviceTuple,
        strf("%s: all buffers must have the same device: %s is on %s, %s on %s", ir::op_name(n->op),
             ir::tensor_name(first).c_str(), want.c_str(), ir::tensor_name(s).c_str(), d.c_str()));
  }
  return {};
}

Status check_reduce(const Node* n, const Sharding& s) {
  const int64_t k = n->as<ir::ReduceArg>().axes;
  const auto reduced =
      std::count_if(s.axes.begin(), s.axes.end(), [k](int64_t a) { return a < k; });
  if (reduced == 0 || reduced == static_cast<int64_t>(s.axes.size())) return {};
  return refuse(Fault::kMixedAxes, n, s.axes[0],
                "only some of its sharded axes are reduced, all or none can be");
}

Status check_pad(Graph& g, const Node* n, const Sharding& s) {
  for (const int64_t a : s.axes) {
    const Node* before = ir::shape(g, n->src(0))[static_cast<size_t>(a)];
    if (!ir::is_int_const(operand(n->src(1), a), 0) || operand(n->src(2), a) != before)
      return refuse(Fault::kPadSharded, n, a, "padding a sharded axis");
  }
  return {};
}

Status check_flip(const Node* n, const Sharding& s) {
  for (const int64_t a : s.axes) {
    if (n->as<ir::Ints>()[static_cast<size_t>(a)] != 0)
      return refuse(Fault::kFlipSharded, n, a, "flipping a sharded axis");
  }
  return {};
}

Status check_shrink(Graph& g, const Node* n, const Sharding& s) {
  if (shrink_reach(g, n).kind != ShrinkReach::Kind::kOther) return {};
  return refuse(Fault::kShrinkSharded, n, s.axes[0],
                "shrinking not supported: neither the whole sharded axis nor exactly one shard");
}

// A write into a part of a sharded buffer would have to run on one device only.
Status check_target(Graph& g, const Node* store) {
  for (const Node* t = store->src(0); ir::kMovementOps.has(t->op); t = t->src(0)) {
    if (t->op != Op::kShrink || ir::sharding(g, t->src(0)).empty()) continue;
    if (shrink_reach(g, t).kind == ShrinkReach::Kind::kWhole) continue;
    return refuse(Fault::kShrinkSharded, t, ir::sharding(g, t->src(0)).axes[0],
                  "a part of a sharded axis cannot be stored to");
  }
  return {};
}

Status check_node(Graph& g, const Node* n) {
  static constexpr ir::OpSet kJoins =
      ir::kElementwiseOps | ir::OpSet{Op::kStack, Op::kIndex, Op::kStore};
  if (kJoins.has(n->op)) RETURN_IF_ERROR(check_devices(g, n));
  if (n->op == Op::kStore) return check_target(g, n);
  if (n->nsrc == 0) return {};
  const Sharding s = ir::sharding(g, n->src(0));
  if (s.empty()) return {};
  switch (n->op) {
    case Op::kReduce:
      return check_reduce(n, s);
    case Op::kPad:
      return check_pad(g, n, s);
    case Op::kFlip:
      return check_flip(n, s);
    case Op::kShrink:
      return check_shrink(g, n, s);
    case Op::kReshape:
      ir::sharding(g, n);  // latches kMovedShards
      return g.status();
    default:
      return {};
  }
}

}  // namespace

bool has_multi(Graph& g, const Node* root) {
  static constexpr ir::OpSet kOps = {Op::kUnshard, Op::kMSelect, Op::kMStack, Op::kAllReduce};
  const ir::NodeVec nodes = ir::toposort(root);
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node* n) {
    return kOps.has(n->op) || ir::is_device_tuple(ir::device(g, n));
  });
}

Status check_multi(Graph& g, const Node* root) {
  if (!has_multi(g, root)) return {};
  for (const Node* n : ir::toposort(root)) RETURN_IF_ERROR(check_node(g, n));
  return {};
}

ShrinkReach shrink_reach(Graph& g, const Node* n) {
  const Sharding s = ir::sharding(g, n->src(0));
  const std::vector<int64_t> dims = ir::max_shape(g, n->src(0));
  ShrinkReach out;
  size_t whole = 0, own = 0;
  for (size_t i = 0; i < s.axes.size(); i++) {
    const int64_t dim = dims[static_cast<size_t>(s.axes[i])];
    const int64_t part = dim / ir::part_count(g, s.coords[i]);
    const Node* start = operand(n->src(1), s.axes[i]);
    const Node* size = operand(n->src(2), s.axes[i]);
    const auto at = ir::int_value(start);
    const bool one = ir::is_int_const(size, part) && at && *at % part == 0;
    whole += ir::is_int_const(start, 0) && ir::is_int_const(size, dim) ? 1 : 0;
    own += ir::is_int_const(size, part) && start == ir::mul_const(g, s.coords[i], part) ? 1 : 0;
    if (one) out.parts.push_back(*at / part);
  }
  if (whole == s.axes.size()) return out;
  out.kind = ShrinkReach::Kind::kOther;
  if (own == s.axes.size()) out.kind = ShrinkReach::Kind::kOwnPart;
  if (out.parts.size() == s.axes.size()) out.kind = ShrinkReach::Kind::kOnePart;
  return out;
}

}  // namespace modeld::schedule
