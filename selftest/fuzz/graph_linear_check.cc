#include "selftest/fuzz/graph_linear_check.h"

#include <algorithm>
#include <map>
#include <vector>

#include "runtime/ir/derived.h"

namespace modeld::fuzz {

using ir::Node;
using ir::Op;

namespace {

// The BUFFERs an argument stands for.
void buffers_below(const Node* arg, std::vector<const Node*>* out) {
  if (arg->op == Op::kBuffer) {
    out->push_back(arg);
    return;
  }
  const size_t count = arg->op == Op::kMStack ? arg->nsrc : 1;
  for (size_t i = 0; i < count && i < arg->nsrc; ++i) buffers_below(arg->src(i), out);
}

struct Life {
  size_t first = 0, last = 0;
  bool in_copy = false;
};
using Lives = std::map<uint32_t, Life>;  // by node id

class Check {
 public:
  Check(ir::Graph& g, const exec::SessionLinear& work, const schedule::ScheduleOptions& options)
      : g_(g), work_(work), options_(options) {}

  std::string run(std::span<const Node* const> kept) {
    for (size_t i = 0; i < work_.linear->nsrc; ++i) {
      if (std::string bad = call(i); !bad.empty()) return strf("call %zu: ", i) + bad;
    }
    for (const Node* b : kept)
      if (work_.plan.find(b) != nullptr)
        return strf("buffer %u outlives the LINEAR but lies in an arena", b->id);
    return places();
  }

 private:
  std::string call(size_t i) {
    const Node* c = work_.linear->src(i);
    const bool is_copy = c->src(0)->op == Op::kCopy;
    const auto limit = static_cast<size_t>(options_.max_kernel_buffers);
    if (!is_copy && limit > 0 && c->nsrc - 1 > limit)
      return strf("%u buffers, the limit is %zu", c->nsrc - 1, limit);
    std::string device;
    for (size_t a = 1; a < c->nsrc; ++a) {
      std::vector<const Node*> below;
      buffers_below(c->src(a), &below);
      for (const Node* b : below) {
        const auto [it, is_new] = lives_.try_emplace(b->id, Life{i, i, false});
        it->second.last = i;
        it->second.in_copy |= is_copy;
        if (is_new && a > 1 && work_.plan.find(b) != nullptr)
          return strf("argument %zu, a temporary, is read before it is written", a - 1);
      }
      const std::string& d = ir::device(g_, c->src(a));
      if (!is_copy && !device.empty() && d != device) return "kernel on " + device + " and " + d;
      device = d;
    }
    return "";
  }

  std::string places() const {
    const schedule::MemoryPlan& plan = work_.plan;
    for (size_t i = 0; i < plan.buffers.size(); ++i) {
      const auto life = lives_.find(plan.buffers[i]->id);
      if (life == lives_.end()) return "a planned buffer that no call names";
      if (std::string bad = place(i, life->second); !bad.empty()) return bad;
      for (size_t j = 0; j < i; ++j) {
        const Life& a = life->second;
        const Life& b = lives_.at(plan.buffers[j]->id);
        const bool at_once = a.first <= b.last && b.first <= a.last;
        const schedule::BufferPlace& p = plan.places[i];
        const schedule::BufferPlace& q = plan.places[j];
        if (at_once && p.lane == q.lane && p.offset < q.offset + q.size &&
            q.offset < p.offset + p.size)
          return strf("planned buffers %zu and %zu are alive at once and share bytes", j, i);
      }
    }
    return "";
  }

  std::string place(size_t i, const Life& life) const {
    const schedule::MemoryPlan& plan = work_.plan;
    const schedule::BufferPlace& p = plan.places[i];
    const Node* b = plan.buffers[i];
    const int64_t bytes = ir::element_count(g_, b) * ir::item_size(b->dtype);
    if (p.lane < 0 || p.lane >= static_cast<int64_t>(plan.lanes.size())) return "no such lane";
    const schedule::MemoryLane& lane = plan.lanes[static_cast<size_t>(p.lane)];
    if (lane.device != ir::device(g_, b)) return strf("planned buffer %zu on another device", i);
    if (lane.copy != life.in_copy) return strf("planned buffer %zu: copies share a lane", i);
    if (p.offset % 256 != 0 || p.offset < 0 || p.size < bytes ||
        p.offset + p.size > lane.arena_size)
      return strf("planned buffer %zu at %lld, %lld bytes of an arena of %lld", i,
                  static_cast<long long>(p.offset), static_cast<long long>(p.size),
                  static_cast<long long>(lane.arena_size));
    return "";
  }

  ir::Graph& g_;
  const exec::SessionLinear& work_;
  const schedule::ScheduleOptions& options_;
  Lives lives_;
};

}  // namespace

std::string check_linear(ir::Graph& g,
                         const exec::SessionLinear& work,
                         std::span<const Node* const> kept,
                         const schedule::ScheduleOptions& options) {
  return Check(g, work, options).run(kept);
}

}  // namespace modeld::fuzz
