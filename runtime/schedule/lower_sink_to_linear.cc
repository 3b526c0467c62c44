#include "runtime/schedule/lower_sink_to_linear.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "runtime/ir/rewrite.h"
#include "runtime/ir/spec.h"
#include "runtime/schedule/create_schedule.h"
#include "runtime/schedule/get_kernel_graph.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

// schedule_cache: finished LINEARs by (body key, options digest). Each entry owns the graph its
// nodes live in, so it outlives the compilation that made it; readers copy the nodes out.
class ScheduleCache {
 public:
  // nullptr = miss (counted).
  const Node* find(Graph& g, Hash128 key) {
    const std::lock_guard lock(mutex_);
    const auto it = entries_.find(key);
    if (it == entries_.end()) {
      stats_.misses++;
      return nullptr;
    }
    stats_.hits++;
    return g.import(it->second.linear);
  }

  void insert(Hash128 key, const Node* linear) {
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= kMaxEntries) entries_.clear();
    Entry e;
    e.graph = std::make_unique<Graph>();
    e.linear = e.graph->import(linear);
    entries_.insert_or_assign(key, std::move(e));
  }

  void count_spec_check() {
    const std::lock_guard lock(mutex_);
    stats_.spec_checks++;
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    entries_.clear();
    stats_ = {};
  }

  ScheduleCacheStats stats() {
    const std::lock_guard lock(mutex_);
    ScheduleCacheStats s = stats_;
    s.entries = static_cast<int64_t>(entries_.size());
    return s;
  }

 private:
  static constexpr size_t kMaxEntries = 256;  // bounds memory of a long-lived process
  struct Entry {
    std::unique_ptr<Graph> graph;
    const Node* linear = nullptr;
  };
  std::mutex mutex_;
  std::unordered_map<Hash128, Entry, Hash128Hasher> entries_;
  ScheduleCacheStats stats_;
};

ScheduleCache& schedule_cache() {
  static ScheduleCache cache;
  return cache;
}

// CALLs of plain SINKs inside the graph are schedules of their own: one LINEAR per shape, reused.
Result<const Node*> lower_nested(Graph& g, const Node* sink, const ScheduleOptions& options) {
  ir::NodeMap map;
  for (const Node* n : ir::toposort(sink)) {
    if (n->op != Op::kCall || n->src(0)->op != Op::kSink || n->src(0)->has<ir::KernelInfo>()) {
      continue;
    }
    if (map.contains(n->src(0))) continue;
    ASSIGN_OR_RETURN(const Node* linear, lower_sink_to_linear(g, n->src(0), options));
    map[n->src(0)] = linear;
  }
  if (map.empty()) return sink;
  ir::RuleSet rules;
  rules.on({Op::kCall}, "nested", [&map](Graph& gr, const Node* n) -> const Node* {
    const auto it = map.find(n->src(0));
    if (it == map.end()) return nullptr;
    NodeVec src(n->src().begin(), n->src().end());
    src[0] = it->second;
    return gr.with_src(n, src);
  });
  return ir::rewrite_walk(g, sink, rules);
}

}  // namespace

Result<const Node*> lower_sink_to_linear(Graph& g,
                                         const Node* sink,
                                         const ScheduleOptions& options) {
  if (sink->op == Op::kFunction || sink->op == Op::kTuple) {
    return fail(ir::Fault::kValueScheduled,
                strf("lower_sink_to_linear: a %s is a value, it is scheduled where it is used",
                     ir::op_name(sink->op)));
  }
  if (sink->op != Op::kSink) {
    return fail(Errc::kInvalid,
                strf("lower_sink_to_linear: %s is not a SINK of stores", ir::op_name(sink->op)));
  }
  if (sink->has<ir::KernelInfo>()) return sink;
  const Hash128 key = combine(sink->key, options.digest());
  if (options.cache) {
    if (const Node* hit = schedule_cache().find(g, key)) return hit;
  }
  if (options.spec > 0) {
    schedule_cache().count_spec_check();
    RETURN_IF_ERROR(ir::verify_tensor(g, sink));
  }
  // Nested ones last: preparing makes some (handle_allreduce).
  ASSIGN_OR_RETURN(const Node* kernels, get_kernel_graph(g, sink, options));
  ASSIGN_OR_RETURN(kernels, lower_nested(g, kernels, options));
  ASSIGN_OR_RETURN(const Node* linear, create_schedule(g, kernels));
  if (options.cache) schedule_cache().insert(key, linear);
  return linear;
}

ScheduleCacheStats schedule_cache_stats() {
  return schedule_cache().stats();
}

void schedule_cache_clear() {
  schedule_cache().clear();
}

}  // namespace modeld::schedule
