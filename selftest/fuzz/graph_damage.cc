#include "selftest/fuzz/graph_damage.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"

namespace modeld::fuzz {

using exec::SessionLinear;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

NodeVec calls_of(const SessionLinear& work) {
  return NodeVec(work.linear->src().begin(), work.linear->src().end());
}

void set_calls(Graph& g, SessionLinear& work, const NodeVec& calls) {
  work.linear = g.with_src(work.linear, calls);
}

const Node* target(const Node* call) {
  return ir::base(call->src(1));
}

// Does the call read this buffer, beside what it writes?
bool reads(const Node* call, const Node* buffer) {
  for (const Node* a : call->src().subspan(2))
    if (ir::base(a) == buffer) return true;
  return false;
}

void move_call(NodeVec* calls, size_t from, size_t to) {
  const Node* call = (*calls)[from];
  calls->erase(calls->begin() + static_cast<int64_t>(from));
  calls->insert(calls->begin() + static_cast<int64_t>(to), call);
}

const Node* with_argument(Graph& g, const Node* call, size_t i, const Node* arg) {
  NodeVec src(call->src().begin(), call->src().end());
  src[i] = arg;
  return g.with_src(call, src);
}

// A kernel that reads what it writes, and nothing that would make it idempotent: a = a + 1.
bool updates_in_place(const Node* call) {
  if (call->src(0)->op != Op::kSink) return false;
  for (const Node* store : ir::toposort(call->src(0))) {
    if (store->op != Op::kStore) continue;
    const NodeVec below = ir::toposort(store->src(1));
    if (std::find(below.begin(), below.end(), store->src(0)->src(0)) != below.end()) return true;
  }
  return false;
}

// dst[r] = src[r]
bool is_plain_copy(const Node* call) {
  if (call->nsrc != 3) return false;
  for (const Node* store : ir::toposort(call->src(0)))
    if (store->op == Op::kStore)
      return store->src(1)->op == Op::kIndex && store->src(1)->src(1) == store->src(0)->src(1);
  return false;
}

bool is_index(const Node* n) {
  const NodeVec below = ir::toposort(n);
  return std::none_of(below.begin(), below.end(),
                      [](const Node* x) { return x->op == Op::kIndex; });
}

void forget_place(schedule::MemoryPlan* plan, const Node* buffer) {
  const auto it = plan->index.find(buffer);
  if (it == plan->index.end()) return;
  const size_t gone = it->second;
  plan->buffers.erase(plan->buffers.begin() + static_cast<int64_t>(gone));
  plan->places.erase(plan->places.begin() + static_cast<int64_t>(gone));
  plan->index.clear();
  for (size_t i = 0; i < plan->buffers.size(); ++i) plan->index[plan->buffers[i]] = i;
}

// Puts `change` of the first node for which it gives one into every kernel.
template <class Change>
void change_kernels(Graph& g, SessionLinear& work, Change change) {
  NodeVec calls = calls_of(work);
  for (const Node*& call : calls) {
    const Node* body = call->src(0);
    if (body->op != Op::kSink) continue;
    for (const Node* n : ir::toposort(body)) {
      const Node* other = change(n);
      if (other == nullptr) continue;
      NodeVec src(call->src().begin(), call->src().end());
      src[0] = ir::substitute(g, body, {{n, other}});
      call = g.with_src(call, src);
      break;
    }
  }
  set_calls(g, work, calls);
}

// Arguments that are parts of buffers begin at the buffer's first element.
void forget_starts(Graph& g, SessionLinear& work, bool of_copies) {
  NodeVec calls = calls_of(work);
  for (const Node*& call : calls) {
    if ((call->src(0)->op == Op::kCopy) != of_copies) continue;
    for (size_t i = 2; i < call->nsrc; ++i) {
      const auto view = ir::contiguous_view(g, call->src(i));
      if (call->src(i)->op == Op::kBuffer || !view || view->offset == 0) continue;
      const int64_t start[] = {0};
      const int64_t size[] = {ir::element_count(g, call->src(i))};
      const Node* first = g.make(Op::kShrink, call->src(i)->dtype,
                                 {view->buffer, ir::shape_node(g, start), ir::shape_node(g, size)});
      call = with_argument(g, call, i, first);
    }
  }
  set_calls(g, work, calls);
}

// First and last call of every planned buffer.
std::vector<std::pair<size_t, size_t>> lives(const SessionLinear& work) {
  std::vector<std::pair<size_t, size_t>> out(work.plan.buffers.size(), {work.linear->nsrc, 0});
  for (size_t i = 0; i < work.linear->nsrc; ++i) {
    for (const Node* a : work.linear->src(i)->src().subspan(1)) {
      const auto it = work.plan.index.find(ir::base(a));
      if (it == work.plan.index.end()) continue;
      out[it->second].first = std::min(out[it->second].first, i);
      out[it->second].second = i;
    }
  }
  return out;
}

}  // namespace

void read_before_write(Graph& g, SessionLinear& work) {
  NodeVec calls = calls_of(work);
  for (size_t i = 0; i + 1 < calls.size(); ++i) {
    for (size_t j = i + 1; j < calls.size(); ++j) {
      if (!reads(calls[j], target(calls[i]))) continue;
      move_call(&calls, j, i);
      return set_calls(g, work, calls);
    }
  }
}

void write_before_read(Graph& g, SessionLinear& work) {
  NodeVec calls = calls_of(work);
  for (size_t i = 0; i + 1 < calls.size(); ++i) {
    for (size_t j = i + 1; j < calls.size(); ++j) {
      const bool overwrites =
          target(calls[j]) != target(calls[i]) && reads(calls[i], target(calls[j]));
      const bool waits = std::any_of(calls.begin() + static_cast<int64_t>(i),
                                     calls.begin() + static_cast<int64_t>(j),
                                     [&](const Node* c) { return reads(calls[j], target(c)); });
      if (!overwrites || waits) continue;
      move_call(&calls, j, i);
      return set_calls(g, work, calls);
    }
  }
}

void lose_call(Graph& g, SessionLinear& work) {
  NodeVec calls = calls_of(work);
  if (calls.size() < 2) return;
  calls.pop_back();
  set_calls(g, work, calls);
}

void repeat_call(Graph& g, SessionLinear& work) {
  NodeVec calls = calls_of(work);
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!updates_in_place(calls[i])) continue;
    calls.insert(calls.begin() + static_cast<int64_t>(i), calls[i]);
    return set_calls(g, work, calls);
  }
}

void write_elsewhere(Graph& g, SessionLinear& work) {
  NodeVec calls = calls_of(work);
  for (const Node*& call : calls) {
    const Node* to = call->src(1);
    if (to->op != Op::kBuffer || work.plan.find(to) != nullptr) continue;
    ir::ParamArg other = to->as<ir::ParamArg>();
    other.slot = g.fresh();
    call = with_argument(g, call, 1, g.with_arg(to, std::move(other)));
    return set_calls(g, work, calls);
  }
}

void swap_operands(Graph& g, SessionLinear& work) {
  NodeVec calls = calls_of(work);
  for (const Node*& call : calls) {
    if (call->nsrc < 4) continue;
    const Node* a = call->src(2);
    const Node* b = call->src(3);
    if (a->dtype != b->dtype || ir::element_count(g, a) != ir::element_count(g, b)) continue;
    call = with_argument(g, with_argument(g, call, 2, b), 3, a);
  }
  set_calls(g, work, calls);
}

// tmp = f(a); a = tmp  ->  a = f(a)
void unstage(Graph& g, SessionLinear& work) {
  NodeVec calls = calls_of(work);
  for (size_t i = 0; i + 1 < calls.size(); ++i) {
    const Node* last = calls[i + 1];
    const bool copies = is_plain_copy(last) && last->src(2) == calls[i]->src(1) &&
                        work.plan.find(last->src(2)) != nullptr && reads(calls[i], target(last)) &&
                        last->src(1)->op == Op::kBuffer;
    if (!copies) continue;
    calls[i] = with_argument(g, calls[i], 1, last->src(1));
    calls.erase(calls.begin() + static_cast<int64_t>(i) + 1);
    forget_place(&work.plan, last->src(2));
    return set_calls(g, work, calls);
  }
}

void forget_offset(Graph& g, SessionLinear& work) {
  forget_starts(g, work, false);
}

void forget_part(Graph& g, SessionLinear& work) {
  forget_starts(g, work, true);
}

void bind_wrong(Graph&, SessionLinear& work) {
  for (auto& [name, value] : work.vars) value = value % 9 + 1;
}

void share_early(Graph&, SessionLinear& work) {
  const auto life = lives(work);
  schedule::MemoryPlan& plan = work.plan;
  for (size_t a = 0; a < plan.places.size(); ++a) {
    for (size_t b = 0; b < plan.places.size(); ++b) {
      if (a == b || life[a].second != life[b].first) continue;
      if (plan.places[a].lane != plan.places[b].lane) continue;
      if (plan.places[a].size < plan.places[b].size) continue;
      plan.places[b].offset = plan.places[a].offset;
      return;
    }
  }
}

void shift_place(Graph&, SessionLinear& work) {
  if (!work.plan.places.empty()) work.plan.places.back().offset += 128;
}

void mix_lanes(Graph&, SessionLinear& work) {
  for (schedule::MemoryLane& lane : work.plan.lanes) lane.copy = false;
}

// ---- kernels ----

void widen_mask(Graph& g, SessionLinear& work) {
  change_kernels(g, work, [&](const Node* n) -> const Node* {
    if (n->op != Op::kCmpLt || ir::is_float(n->src(0)->dtype)) return nullptr;
    const auto limit = ir::int_value(n->src(1));
    if (!limit || !is_index(n->src(0))) return nullptr;
    return g.with_src(n, {n->src(0), ir::const_int(g, *limit + 1, n->src(1)->dtype)});
  });
}

void shift_flip(Graph& g, SessionLinear& work) {
  change_kernels(g, work, [&](const Node* n) -> const Node* {
    if (n->op != Op::kIndex) return nullptr;
    const NodeVec below = ir::toposort(n->src(1));
    const bool counts_down = std::any_of(below.begin(), below.end(), [](const Node* x) {
      return x->op == Op::kMul && ir::int_value(x->src(1)).value_or(0) < 0;
    });
    if (!counts_down) return nullptr;
    return g.with_src(n, {n->src(0), ir::add_const(g, n->src(1), -1)});
  });
}

void turn_mask(Graph& g, SessionLinear& work) {
  change_kernels(g, work, [&](const Node* n) -> const Node* {
    if (n->op != Op::kWhere || ir::is_invalid(n->src(2))) return nullptr;
    return g.with_src(n, {n->src(0), n->src(2), n->src(1)});
  });
}

void start_sum_at_one(Graph& g, SessionLinear& work) {
  change_kernels(g, work, [&](const Node* n) -> const Node* {
    if (n->op != Op::kReduce || n->as<ir::ReduceArg>().op != Op::kAdd) return nullptr;
    return ir::add(g, n, ir::const_of(g, n->dtype, 1));
  });
}

void start_max_at_zero(Graph& g, SessionLinear& work) {
  change_kernels(g, work, [&](const Node* n) -> const Node* {
    if (n->op != Op::kReduce || n->as<ir::ReduceArg>().op != Op::kMax) return nullptr;
    return ir::alu(g, Op::kMax, {n, ir::const_of(g, n->dtype, 0)});
  });
}

void lose_rounding(Graph& g, SessionLinear& work) {
  change_kernels(g, work, [&](const Node* n) -> const Node* {
    return n->op == Op::kTrunc ? n->src(0) : nullptr;
  });
}

}  // namespace modeld::fuzz
