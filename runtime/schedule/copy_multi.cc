// copy_multi: COPY from, to and between device tuples.
//   one -> many           a copy per device, stacked
//   replicated -> one     the part that is there already, else a copy of part 0
//   replicated -> many    the same, per target
//   sharded -> one        a copy per part, concatenated from the last sharded axis to the first
//   sharded -> many       every part zero padded to the whole, then ALLREDUCE(ADD)
#include <algorithm>

#include "runtime/ir/derived.h"
#include "runtime/ir/symbolic.h"
#include "runtime/schedule/multi.h"

namespace modeld::schedule {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using ir::Sharding;

namespace {

Sharding sharding_of(const Node* unshard) {
  return {unshard->as<ir::Ints>(), NodeVec(unshard->src().begin() + 1, unshard->src().end())};
}

int64_t total_parts(Graph& g, const Sharding& s) {
  int64_t n = 1;
  for (const Node* c : s.coords) n *= ir::part_count(g, c);
  return n;
}

// Equal parts side by side along `axis`: as many as there are, one kernel reads them all.
const Node* concat(Graph& g, const NodeVec& parts, size_t axis) {
  if (parts.size() == 1) return parts[0];
  ir::Ints dims = ir::max_shape(g, parts[0]);
  ir::Ints order;  // the stacked axis goes right before the one it extends
  for (size_t a = 0; a < dims.size(); a++) {
    if (a == axis) order.push_back(0);
    order.push_back(static_cast<int64_t>(a) + 1);
  }
  const DType t = parts[0]->dtype;
  const Node* stack = g.make(Op::kStack, t, parts);
  const Node* moved = g.make(Op::kPermute, t, {stack}, std::move(order));
  dims[axis] *= static_cast<int64_t>(parts.size());
  return g.make(Op::kReshape, t, {moved, ir::shape_node(g, dims)});
}

// Sharded -> one device.
const Node* concat_multi(Multi& m, const Node* unshard, const std::string& to) {
  const Sharding s = sharding_of(unshard);
  // Parts in row-major order of their coordinates; the last axis is joined first.
  NodeVec parts;
  const int64_t n = total_parts(m.g, s);
  for (int64_t i = 0; i < n; i++) {
    ir::Ints at(s.axes.size());
    int64_t rest = i;
    for (size_t a = at.size(); a-- > 0; rest /= ir::part_count(m.g, s.coords[a])) {
      at[a] = rest % ir::part_count(m.g, s.coords[a]);
    }
    const Node* part = m.storage.part_of(unshard->src(0), device_holding(m, s, at));
    parts.push_back(m.storage.moved(part, to));
  }
  for (size_t a = s.axes.size(); a-- > 0;) {
    const auto count = static_cast<size_t>(ir::part_count(m.g, s.coords[a]));
    NodeVec joined;
    for (size_t i = 0; i < parts.size(); i += count) {
      const NodeVec group(parts.begin() + static_cast<std::ptrdiff_t>(i),
                          parts.begin() + static_cast<std::ptrdiff_t>(i + count));
      joined.push_back(concat(m.g, group, static_cast<size_t>(s.axes[a])));
    }
    parts = std::move(joined);
  }
  return parts[0];
}

// What device `to` gets of a replicated value.
const Node* replica_on(Multi& m, const Node* x, const std::string& to) {
  const int64_t there = ir::device_position(ir::device(m.g, x), to);
  return m.storage.moved(m.storage.part_of(x, std::max<int64_t>(there, 0)), to);
}

}  // namespace

int64_t device_holding(Multi& m, const Sharding& s, const ir::Ints& parts) {
  const int64_t n = total_parts(m.g, s);
  for (int64_t i = 0; i < n; i++) {
    bool here = true;
    for (size_t a = 0; a < parts.size(); a++) {
      const Node* coord = ir::simplify(m.g, m.storage.on_device(s.coords[a], i));
      here = here && ir::is_int_const(coord, parts[a]);
    }
    if (here) return i;
  }
  m.g.fail(Errc::kInternal, "copy_multi: coordinates do not cover the parts of a sharded value");
  return 0;
}

const Node* gather_multi(Multi& m, const Node* unshard, const std::string& to) {
  Graph& g = m.g;
  const Sharding s = sharding_of(unshard);
  const Node* local = unshard->src(0);
  if (to.empty()) return concat_multi(m, unshard, to);  // constants: every device knows them all
  const bool is_bool = local->dtype == DType::kBool;    // added up as numbers
  if (is_bool) local = ir::cast(g, local, DType::kU8);
  const ir::Ints part = ir::max_shape(g, local);
  NodeVec offsets(part.size(), ir::const_int(g, 0));
  for (size_t i = 0; i < s.axes.size(); i++) {
    const auto a = static_cast<size_t>(s.axes[i]);
    offsets[a] = ir::mul_const(g, s.coords[i], part[a]);
  }
  const Node* at = g.make(Op::kStack, DType::kWeakInt, offsets);
  const Node* sizes = ir::shape_node(g, ir::max_shape(g, unshard));
  const Node* padded = g.make(Op::kPad, local->dtype, {local, at, sizes});
  const Node* all = g.make(Op::kAllReduce, local->dtype, {padded}, ir::AllReduceArg{Op::kAdd, to});
  return is_bool ? ir::cast(g, all, DType::kBool) : all;
}

const Node* copy_multi(Multi& m, const Node* n) {
  const Node* x = n->src(0);
  const std::string& to = n->as<std::string>();
  const std::string from = ir::device(m.g, x);
  if (x->op == Op::kUnshard) {
    if (from == to || (from.empty() && ir::is_device_tuple(to))) return x;
    return ir::is_device_tuple(to) ? gather_multi(m, x, to) : concat_multi(m, x, to);
  }
  if (from.empty() || from == to) return x;
  if (!ir::is_device_tuple(to)) return replica_on(m, x, to);
  NodeVec parts;
  for (const std::string& device : ir::split_devices(to)) {
    parts.push_back(ir::is_device_tuple(from) ? replica_on(m, x, device)
                                              : m.storage.moved(x, device));
  }
  return m.storage.stacked(parts);
}

}  // namespace modeld::schedule
