#include "runtime/schedule/memory_plan_rewrite.h"

#include <limits>

#include "runtime/ir/derived.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::Op;

namespace {

// BUFFERs behind an argument, through views and multi-device nodes.
void buffers_of(const Node* arg, std::vector<const Node*>* out) {
  while (ir::kMovementOps.has(arg->op) || arg->op == Op::kBitCast) arg = arg->src(0);
  if (arg->op == Op::kBuffer) {
    out->push_back(arg);
  } else if (arg->op == Op::kMStack || arg->op == Op::kMSelect) {
    for (const Node* s : arg->src()) buffers_of(s, out);
  }
}

Result<int64_t> narrow(Bytes v, const char* what) {
  if (v > static_cast<Bytes>(std::numeric_limits<int64_t>::max())) {
    return fail(Errc::kOutOfMemory, strf("memory plan: %s needs more than 2^63 bytes", what));
  }
  return static_cast<int64_t>(v);
}

}  // namespace

const BufferPlace* MemoryPlan::find(const Node* buffer) const {
  const auto it = index.find(buffer);
  return it == index.end() ? nullptr : &places[it->second];
}

PlanInput plan_input(Graph& g,
                     const Node* linear,
                     const NodeSet& held,
                     std::vector<const Node*>* buffers) {
  PlanInput in;
  std::unordered_map<const Node*, size_t> number;
  for (const Node* call : linear->src()) {
    PlanCall c;
    c.copy = call->nsrc > 0 && call->src(0)->op == Op::kCopy;
    std::vector<const Node*> named;
    for (const Node* arg : call->src().subspan(1)) buffers_of(arg, &named);
    for (const Node* b : named) {
      const auto [it, is_new] = number.try_emplace(b, buffers->size());
      if (is_new) {
        buffers->push_back(b);
        PlanBuffer p;
        p.nbytes = static_cast<Bytes>(ir::element_count(g, b)) *
                   static_cast<Bytes>(ir::item_size(b->dtype));
        p.device = b->as<ir::ParamArg>().device;
        p.held = held.contains(b) || b->as<ir::ParamArg>().addrspace != ir::AddrSpace::kGlobal;
        in.buffers.push_back(std::move(p));
      }
      c.args.push_back(it->second);
    }
    in.calls.push_back(std::move(c));
  }
  return in;
}

Result<MemoryPlan> memory_plan_rewrite(Graph& g,
                                       const Node* linear,
                                       const NodeSet& held,
                                       const ScheduleOptions& options) {
  MemoryPlan plan;
  if (!options.memory_planner) return plan;
  std::vector<const Node*> buffers;
  const PlanInput in = plan_input(g, linear, held, &buffers);
  const PlanOutput out = plan_memory(in, options.best_fit);
  for (const PlanLane& l : out.lanes) {
    MemoryLane lane;
    lane.device = l.device;
    lane.copy = l.copy;
    lane.method = l.method;
    ASSIGN_OR_RETURN(lane.arena_size, narrow(l.arena, "an arena"));
    ASSIGN_OR_RETURN(lane.sum_size, narrow(l.sum, "a lane"));
    ASSIGN_OR_RETURN(lane.lower_bound, narrow(l.lower_bound, "one step"));
    plan.lanes.push_back(std::move(lane));
  }
  std::vector<PlanLane> ignored;
  for (const Lifetime& life : lifetimes(in, &ignored)) {
    const size_t b = life.buffer;
    BufferPlace place;
    place.first = life.first;
    place.last = life.last;
    place.free = life.free;
    place.lane = out.places[b].lane;
    ASSIGN_OR_RETURN(place.offset, narrow(out.places[b].offset, "a placement"));
    ASSIGN_OR_RETURN(place.size, narrow(in.buffers[b].nbytes, "a buffer"));
    plan.index[buffers[b]] = plan.places.size();
    plan.buffers.push_back(buffers[b]);
    plan.places.push_back(place);
  }
  return plan;
}

}  // namespace modeld::schedule
