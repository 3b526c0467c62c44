#include "runtime/schedule/copy_from_store.h"

#include <optional>

#include "runtime/ir/derived.h"
#include "runtime/ir/sharding.h"
#include "runtime/schedule/copy_rules.h"
#include "runtime/schedule/create_schedule.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

// `dst[r + to] = src[r + from]` for r of one range over `count` items, or of one item.
struct PureCopy {
  int64_t to = 0, from = 0, count = 1;
};

// index = range + offset, or a constant if there is no range.
std::optional<int64_t> offset_from(const Node* index, const Node* range) {
  if (range == nullptr) return ir::int_value(index);
  if (index == range) return 0;
  if (index->op != Op::kAdd) return std::nullopt;
  if (index->src(0) == range) return ir::int_value(index->src(1));
  if (index->src(1) == range) return ir::int_value(index->src(0));
  return std::nullopt;
}

bool is_inside(Graph& g, const Node* param, int64_t offset, int64_t count) {
  return offset >= 0 && offset + count <= ir::element_count(g, param);
}

std::optional<PureCopy> pure_copy(Graph& g, const Node* sink) {
  if (sink->nsrc != 1) return std::nullopt;
  const Node* body = sink->src(0);
  const Node* range = nullptr;
  if (body->op == Op::kEnd) {
    if (body->nsrc != 2) return std::nullopt;
    range = body->src(1);
    body = body->src(0);
  }
  if (body->op != Op::kStore || body->nsrc != 2 || body->src(1)->op != Op::kIndex) {
    return std::nullopt;
  }
  const Node* to = body->src(0);
  const Node* from = body->src(1);
  if (to->nsrc != 2 || from->nsrc != 2) return std::nullopt;
  if (to->src(0)->op != Op::kParam || from->src(0)->op != Op::kParam) return std::nullopt;
  if (to->src(0)->dtype != from->src(0)->dtype) return std::nullopt;
  const auto to_at = offset_from(to->src(1), range);
  const auto from_at = offset_from(from->src(1), range);
  if (!to_at || !from_at) return std::nullopt;
  const PureCopy copy{*to_at, *from_at, range == nullptr ? 1 : ir::vmax(g, range) + 1};
  const bool inside = is_inside(g, to->src(0), copy.to, copy.count) &&
                      is_inside(g, from->src(0), copy.from, copy.count);
  return inside ? std::optional(copy) : std::nullopt;
}

// One device's storage or a view of it: a copy of several devices is one call per device.
bool is_single(Graph& g, const Node* arg) {
  const Node* b = base_buffer(arg);
  const bool storage = b->op == Op::kBuffer || b->op == Op::kMSelect;
  return storage && ir::device_count(ir::device(g, arg)) == 1;
}

// The items of an argument that take part: itself, or a sub-buffer.
const Node* part_of(Graph& g, const Node* arg, int64_t offset, int64_t count) {
  const int64_t total = ir::element_count(g, arg);
  if (count == total) return arg;
  const Node* flat = arg;
  if (ir::shape(g, arg).size() != 1) {
    flat = g.make(Op::kReshape, arg->dtype, {arg, ir::shape_node(g, ir::Ints{total})});
  }
  return g.make(Op::kShrink, arg->dtype,
                {flat, ir::shape_node(g, ir::Ints{offset}), ir::shape_node(g, ir::Ints{count})});
}

const Node* as_copy(Graph& g, const Node* call) {
  if (call->src(0)->op != Op::kSink || call->nsrc != 3) return call;
  const Node *dst = call->src(1), *src = call->src(2);
  const std::string& to = ir::device(g, dst);
  const std::string& from = ir::device(g, src);
  if ((to == from && !is_disk(to)) || !is_single(g, dst) || !is_single(g, src)) return call;
  const auto copy = pure_copy(g, call->src(0));
  if (!copy) return call;
  const Node* formal = ir::param(g, 1, src->dtype, copy->count, from);
  return g.make(Op::kCall, ir::DType::kVoid,
                {g.make(Op::kCopy, formal->dtype, {formal}, to),
                 part_of(g, dst, copy->to, copy->count), part_of(g, src, copy->from, copy->count)});
}

}  // namespace

const Node* copy_from_store(Graph& g, const Node* linear) {
  NodeVec items;
  for (const Node* call : linear->src()) items.push_back(as_copy(g, call));
  return g.with_src(linear, items);
}

}  // namespace modeld::schedule
