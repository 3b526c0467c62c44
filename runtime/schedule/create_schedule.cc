#include "runtime/schedule/create_schedule.h"

#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>

#include "runtime/ir/base_storage.h"
#include "runtime/schedule/expr_util.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

// Strips views and casts down to a buffer state.
const Node* unwrap(const Node* n) {
  while (ir::is_view_op(n)) n = n->src(0);
  return n;
}

bool is_parts(const Node* n) {
  return n->op == Op::kMStack || n->op == Op::kMSelect;
}

struct Items {
  NodeVec kernels;
  NodeVec joins;
};

void add_once(NodeVec* list, const Node* n) {
  if (std::find(list->begin(), list->end(), n) == list->end()) list->push_back(n);
}

// What a state waits on: kernels (under an END when they run once per device), other states
// (ordering only) and stores, which their kernels stand for.
Result<Items> split_items(const Node* after) {
  Items items;
  for (const Node* i : after->src().subspan(1)) {
    const Node* k = i->op == Op::kEnd && i->nsrc > 0 ? i->src(0) : i;
    if (k->op == Op::kCall) {
      add_once(&items.kernels, k);
    } else if (i->op == Op::kAfter) {
      items.joins.push_back(i);
    } else if (i->op != Op::kStore) {
      return ir::fail(ir::Fault::kAfterItem,
                      strf("create_schedule: a state of %s waits on %s, only kernels, states and "
                           "stores are possible",
                           storage_name(base_buffer(after)).c_str(), ir::op_name(i->op)));
    }
  }
  return items;
}

struct Write {
  const Node* after;
  NodeVec new_kernels;
};
struct Read {
  const Node* after;
  const Node* kernel;
  const Node* state;
};

class Dependencies {
 public:
  // States in topological order: what a state stands on was added before.
  Status add(const Node* after) {
    ASSIGN_OR_RETURN(Items split, split_items(after));
    const Items& items = items_.emplace(after, std::move(split)).first->second;
    note_write(after, items.kernels);
    for (const Node* k : items.kernels) {
      if (known_.insert(k).second) result.kernels.push_back(k);
      NodeVec states;
      for (const Node* arg : k->src().subspan(1)) states_of(arg, &states);
      for (const Node* s : states) reads_.push_back({after, k, s});
      for (const Node* j : items.joins) states_of(j, &states);
      add_raw(std::move(states), k);
    }
    return {};
  }

  // Whoever read a state goes before the write that directly supersedes it.
  void add_war() {
    for (const Read& r : reads_) {
      const auto it = superseded_by_.find(r.state);
      if (it == superseded_by_.end()) continue;
      for (const Write& w : it->second) {
        if (w.after == r.after) continue;
        for (const Node* t : w.new_kernels) {
          if (t != r.kernel) add_edge({r.kernel, t, r.state});
        }
      }
    }
  }

  KernelEdges result;

 private:
  void note_write(const Node* after, const NodeVec& kernels) {
    NodeVec before;
    states_of(after->src(0), &before);
    NodeVec fresh;
    for (const Node* k : kernels) {
      const bool is_old = std::any_of(before.begin(), before.end(), [&](const Node* prev) {
        const auto it = items_.find(prev);
        return it != items_.end() && std::find(it->second.kernels.begin(), it->second.kernels.end(),
                                               k) != it->second.kernels.end();
      });
      if (!is_old) fresh.push_back(k);
    }
    for (const Node* prev : before) superseded_by_[prev].push_back({after, fresh});
  }

  // The kernels of each state, and of the states it only joins or passes on.
  void add_raw(NodeVec states, const Node* kernel) {
    std::reverse(states.begin(), states.end());  // the first is looked at first
    std::set<const Node*> seen;                  // membership only
    while (!states.empty()) {
      const Node* s = states.back();
      states.pop_back();
      const auto it = items_.find(s);
      if (it == items_.end() || !seen.insert(s).second) continue;
      const Items& items = it->second;
      for (const Node* t : items.kernels) add_edge({t, kernel, nullptr});
      NodeVec below;
      for (const Node* j : items.joins) states_of(j, &below);
      if (items.kernels.empty()) states_of(s->src(0), &below);
      states.insert(states.end(), below.rbegin(), below.rend());
    }
  }

  void add_edge(const KernelEdge& e) {
    if (e.from == e.to) return;
    if (seen_.insert({e.from->id, e.to->id}).second) result.edges.push_back(e);
  }

  std::set<const Node*> known_;  // membership only
  std::set<std::pair<uint32_t, uint32_t>> seen_;
  std::unordered_map<const Node*, Items> items_;
  std::unordered_map<const Node*, std::vector<Write>> superseded_by_;  // by the state before
  std::vector<Read> reads_;
};

const Node* record_argument(Graph& g, const Node* arg) {
  const Node* s = unwrap(arg);
  // Arguments of nested LINEARs keep their variables: positions bind p<i>.
  if (is_scalar_param(s)) return s;
  if (!is_parts(s)) return ir::base_storage(g, s);
  NodeVec parts;
  for (const Node* p : s->src()) parts.push_back(record_argument(g, p));
  return g.with_src(s, parts);
}

// The call as an execution record: base buffers only.
const Node* call_record(Graph& g, const Node* kernel) {
  NodeVec src{kernel->src(0)};
  for (const Node* arg : kernel->src().subspan(1)) src.push_back(record_argument(g, arg));
  return g.make(Op::kCall, ir::DType::kVoid, src);
}

// ---- what to say about a cycle ----

std::string kernel_name(const Node* kernel) {
  const Node* body = kernel->src(0);
  const bool named = body->has<ir::KernelInfo>() && !body->as<ir::KernelInfo>().name.empty();
  if (named) return body->as<ir::KernelInfo>().name;
  if (kernel->nsrc < 2) return "without arguments";
  return "writing " + storage_name(base_buffer(kernel->src(1)));
}

// Edges among the kernels that never became ready.
class Stuck {
 public:
  Stuck(const KernelEdges& deps, const std::unordered_map<const Node*, size_t>& waits) {
    for (const KernelEdge& e : deps.edges) {
      if (waits_left(waits, e.from) && waits_left(waits, e.to)) edges_.push_back(e);
    }
    for (const KernelEdge& e : edges_) next_[e.from].push_back(e);
  }

  Error error(size_t count) const {
    // Each look is a walk over all that is stuck: the first edges are enough for a message.
    static constexpr size_t kMostLooks = 64;
    size_t looks = 0;
    for (const KernelEdge& e : edges_) {
      if (e.overwritten == nullptr) continue;
      if (++looks > kMostLooks) break;
      if (!reaches(e.to, e.from)) continue;
      return ir::fault_error(
          ir::Fault::kStaleReader,
          strf("cycle detected in assign graph: the kernel %s reads %s as it was before the kernel "
               "%s overwrites it, and needs what that one computes",
               kernel_name(e.from).c_str(), storage_name(base_buffer(e.overwritten)).c_str(),
               kernel_name(e.to).c_str()));
    }
    return ir::fault_error(
        ir::Fault::kAssignCycle,
        strf("cycle detected in assign graph: %zu kernels wait on each other: %s", count,
             cycle().c_str()));
  }

 private:
  static bool waits_left(const std::unordered_map<const Node*, size_t>& waits, const Node* k) {
    const auto it = waits.find(k);
    return it != waits.end() && it->second > 0;
  }

  // By reads of what was written alone.
  bool reaches(const Node* from, const Node* to) const {
    std::set<const Node*> seen{from};  // membership only
    NodeVec work{from};
    while (!work.empty()) {
      const Node* k = work.back();
      work.pop_back();
      if (k == to) return true;
      const auto it = next_.find(k);
      if (it == next_.end()) continue;
      for (const KernelEdge& e : it->second) {
        if (e.overwritten == nullptr && seen.insert(e.to).second) work.push_back(e.to);
      }
    }
    return false;
  }

  // Every stuck kernel waits on a stuck one: going back from any of them closes a cycle.
  std::string cycle() const {
    std::unordered_map<const Node*, const Node*> waits_on;
    for (const KernelEdge& e : edges_) waits_on.try_emplace(e.to, e.from);
    std::unordered_map<const Node*, size_t> at;
    NodeVec path;
    const Node* k = edges_.empty() ? nullptr : edges_.front().to;
    while (k != nullptr && !at.contains(k)) {
      at[k] = path.size();
      path.push_back(k);
      const auto it = waits_on.find(k);
      k = it == waits_on.end() ? nullptr : it->second;
    }
    if (k == nullptr) return "none named";
    std::string text;
    for (size_t i = path.size(); i-- > at.at(k);)
      text += "the kernel " + kernel_name(path[i]) + ", ";
    return text + "and that one again";
  }

  std::vector<KernelEdge> edges_;
  std::unordered_map<const Node*, std::vector<KernelEdge>> next_;
};

}  // namespace

void states_of(const Node* arg, NodeVec* out) {
  const Node* s = unwrap(arg);
  if (is_parts(s)) {
    for (const Node* part : s->src()) states_of(part, out);
  } else {
    out->push_back(s);
  }
}

const Node* base_buffer(const Node* n) {
  while (n->op == Op::kAfter || ir::is_view_op(n)) n = n->src(0);
  return n;
}

Result<KernelEdges> kernel_edges(const Node* kernel_graph) {
  Dependencies deps;
  for (const Node* u : ir::toposort(kernel_graph)) {
    if (u->op != Op::kAfter || is_scalar_param(u)) continue;
    RETURN_IF_ERROR(deps.add(u));
  }
  deps.add_war();
  return std::move(deps.result);
}

Result<const Node*> create_schedule(Graph& g, const Node* kernel_graph) {
  ASSIGN_OR_RETURN(const KernelEdges deps, kernel_edges(kernel_graph));
  std::unordered_map<const Node*, NodeVec> next;
  std::unordered_map<const Node*, size_t> waits;
  for (const KernelEdge& e : deps.edges) {
    next[e.from].push_back(e.to);
    waits[e.to]++;
  }
  std::deque<const Node*> ready;
  for (const Node* k : deps.kernels) {
    if (!waits.contains(k)) ready.push_back(k);
  }
  NodeVec order;
  while (!ready.empty()) {
    const Node* k = ready.front();
    ready.pop_front();
    order.push_back(call_record(g, k));
    for (const Node* t : next[k]) {
      if (--waits[t] == 0) ready.push_back(t);
    }
  }
  const size_t left = deps.kernels.size() - order.size();
  if (left > 0) return tl::unexpected<Error>(Stuck(deps, waits).error(left));
  return g.make(Op::kLinear, ir::DType::kVoid, order);
}

}  // namespace modeld::schedule
