#include "runtime/schedule/schedule.h"

#include <unordered_map>

#include "runtime/ir/derived.h"
#include "runtime/ir/sharding.h"
#include "runtime/schedule/create_schedule.h"
#include "runtime/schedule/expr_util.h"
#include "runtime/schedule/transform_to_call.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

// The table of scheduling stages, in order. make_schedule is its only caller; the kernel-graph
// stages have their own table in get_kernel_graph.cc, run by the pass runner.
//
//   transform_to_call        values -> stores into buffers; buffers and bound values leave the
//   body,
//                            because only then is equal work an equal key
//   create_linear_with_vars
//     lower_sink_to_linear   [schedule_cache]
//       get_kernel_graph     prepare_rangeify, run_rangeify, remove_bufferize, limit_buffers,
//                            stage_to_buffer, split_store
//       create_schedule      kernels in an order all reads and writes agree with
//     resolve_linear_call    buffers and variables back in
//     copy_from_store        needs real devices
//     assert_all_same_devices  what is still a kernel must stay on one device
//   memory_plan_rewrite      lifetimes are positions in the final order, so last

namespace {

// The SINK make_schedule lowers, and how each wanted value finds its storage.
struct Wanted {
  NodeVec roots;    // per output: what goes into the SINK
  NodeVec storage;  // per output: its BUFFER, or nullptr = ask the map for `key`
  NodeVec keys;     // per output: node to look up
};

const Node* strip_reshape(const Node* n) {
  while (n->op == Op::kReshape || n->op == Op::kDetach) n = n->src(0);
  return n;
}

// A fresh buffer that holds `value` row by row.
const Node* copy_into_fresh(Graph& g,
                            const Node* value,
                            const ScheduleOptions& options,
                            const Node** storage) {
  std::string device = ir::device(g, value);
  if (device.empty()) device = options.device;
  const ir::DType dtype = ir::strong(value->dtype);
  const Node* buffer =
      ir::buffer(g, g.fresh(), dtype, ir::local_count(g, value), ir::AddrSpace::kGlobal, device);
  const Node* local =
      g.make(Op::kReshape, dtype, {buffer, ir::shape_node(g, ir::local_shape(g, value))});
  const Node* view = ir::unshard(g, local, ir::sharding(g, value));
  const Node* store = g.make(Op::kStore, ir::DType::kVoid, {view, ir::cast(g, value, dtype)});
  *storage = buffer;
  return g.make(Op::kAfter, dtype, {buffer, store});
}

// Values that would share one buffer have the same identity.
const Node* identity_of(const Node* n) {
  while (n->op == Op::kReshape || n->op == Op::kDetach || n->op == Op::kContiguous) n = n->src(0);
  return n->op == Op::kAfter && is_state(n) ? base_buffer(n) : n;
}

// True if asking for `core` itself gives it a buffer of its own: a computed value, not a view.
bool gets_storage(Graph& g, const Node* core) {
  if (ir::kMovementOps.has(core->op) || ir::is_virtual(g, core)) return false;
  static constexpr ir::OpSet kThrough =
      ir::kMovementOps | ir::OpSet{Op::kContiguous, Op::kUnshard, Op::kMSelect};
  while (kThrough.has(core->op)) core = core->src(0);
  return !is_state(core) && !ir::is_virtual(g, core);
}

// Outputs get distinct buffers: computed ones directly, the rest (inputs, views, constants,
// repeats) by a store of their own.
Wanted want(Graph& g, std::span<const Node* const> outputs, const ScheduleOptions& options) {
  Wanted w;
  std::unordered_map<const Node*, const Node*> taken;  // core or buffer -> what to read again
  for (const Node* o : outputs) {
    const Node* core = strip_reshape(o);
    const bool state = core->op == Op::kAfter && is_state(core);
    const auto [first, is_new] = taken.try_emplace(identity_of(core), core);
    if (is_new && (state || gets_storage(g, core))) {
      w.roots.push_back(core);
      w.storage.push_back(state ? base_buffer(core) : nullptr);
      w.keys.push_back(core);
      continue;
    }
    const Node* value = o;
    if (!is_new && !state && first->second != core) {
      // What was stored first lies in parts if it is sharded.
      const Node* again = first->second;
      const bool stored = again->op == Op::kAfter;
      const std::vector<int64_t> dims = stored ? ir::local_shape(g, o) : ir::max_shape(g, o);
      value = g.make(Op::kReshape, again->dtype, {again, ir::shape_node(g, dims)});
      if (stored) value = ir::unshard(g, value, ir::sharding(g, o));
    }
    const Node* storage = nullptr;
    w.roots.push_back(copy_into_fresh(g, value, options, &storage));
    w.storage.push_back(storage);
    w.keys.push_back(nullptr);
    if (is_new) first->second = w.roots.back();
  }
  return w;
}

// BUFFERs the caller owns: everything its own graph names.
NodeSet buffers_below(const NodeVec& roots) {
  NodeSet found;
  ir::VisitSet seen;
  NodeVec stack(roots.begin(), roots.end());
  while (!stack.empty()) {
    const Node* n = stack.back();
    stack.pop_back();
    if (!seen.insert(n)) continue;
    if (n->op == Op::kBuffer) found.insert(n);
    for (const Node* s : n->src()) stack.push_back(s);
  }
  return found;
}

Status find_storage(const Wanted& w, const ir::NodeMap& map, NodeVec* storage) {
  std::unordered_map<const Node*, size_t> owner;
  for (size_t i = 0; i < w.roots.size(); i++) {
    const Node* s = w.storage[i];
    if (s == nullptr) {
      const auto it = map.find(w.keys[i]);
      if (it == map.end()) {
        return fail(Errc::kInternal, strf("make_schedule: output %zu (%s) has no storage", i,
                                          ir::op_name(w.roots[i]->op)));
      }
      s = base_buffer(it->second);
    }
    const auto [it, is_new] = owner.emplace(s, i);
    if (!is_new) {
      return fail(Errc::kInternal,
                  strf("make_schedule: outputs %zu and %zu share a buffer", it->second, i));
    }
    storage->push_back(s);
  }
  return {};
}

}  // namespace

Result<Schedule> make_schedule(Graph& g,
                               std::span<const Node* const> outputs,
                               const ScheduleOptions& options) {
  RETURN_IF_ERROR(g.status());
  for (const Node* o : outputs) {
    if (ir::element_count(g, o) == 0) {
      return fail(Errc::kInvalid, "make_schedule: an output without elements has no storage");
    }
  }
  const Wanted w = want(g, outputs, options);
  NodeSet held = buffers_below(w.roots);
  ASSIGN_OR_RETURN(const CallAndMap call, transform_to_call(g, ir::sink(g, w.roots), options));
  Schedule s;
  RETURN_IF_ERROR(find_storage(w, call.map, &s.output_storage));
  ASSIGN_OR_RETURN(LinearWithVars linear, create_linear_with_vars(g, call.call, options));
  s.linear = linear.linear;
  s.vars = std::move(linear.vars);
  held.insert(s.output_storage.begin(), s.output_storage.end());
  ASSIGN_OR_RETURN(s.plan, memory_plan_rewrite(g, s.linear, held, options));
  return s;
}

}  // namespace modeld::schedule
