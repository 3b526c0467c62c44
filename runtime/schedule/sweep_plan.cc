#include "runtime/schedule/sweep_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace modeld::schedule {
namespace {

constexpr size_t kMaxWork = size_t{1} << 23;  // offsets looked at in one sweep

// Where the buffers alive now lie, and the way here.
struct Placement {
  std::vector<Bytes> offsets;  // parallel to Sweep::live_
  Bytes top = 0;               // highest end since the first call
  size_t before = 0;           // index among the placements of the buffer before
};

// One kept placement of one buffer, for walking back.
struct Step {
  size_t before = 0;
  Bytes offset = 0;
};

class Sweep {
 public:
  Sweep(std::span<const Lifetime> lane, Bytes limit, size_t width)
      : lane_(lane), limit_(limit), width_(width) {}

  std::optional<std::vector<Bytes>> run() {
    std::vector<size_t> order(lane_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return std::pair(lane_[a].first, lane_[b].size) < std::pair(lane_[b].first, lane_[a].size);
    });
    placements_.emplace_back();
    for (const size_t b : order) {
      if (!place(b)) return std::nullopt;
    }
    return walk_back(order);
  }

 private:
  // Every kept placement, extended by buffer `b`. False: none has room, or it is too much work.
  bool place(size_t b) {
    drop_dead(lane_[b].first);
    std::map<std::vector<Bytes>, Placement> found;  // by offsets: the same place twice is one
    for (size_t p = 0; p < placements_.size(); p++) {
      work_ += (live_.size() + 1) * (live_.size() + 1);
      if (work_ > kMaxWork) return false;
      extend(p, b, &found);
    }
    live_.push_back(b);
    placements_.clear();
    for (auto& [offsets, placement] : found) placements_.push_back(std::move(placement));
    keep_lowest();
    std::vector<Step> steps;
    for (const Placement& p : placements_) steps.push_back({p.before, p.offsets.back()});
    steps_.push_back(std::move(steps));
    return !placements_.empty();
  }

  void drop_dead(int64_t now) {
    std::vector<size_t> kept;
    for (size_t i = 0; i < live_.size(); i++) {
      if (lane_[live_[i]].free > now) kept.push_back(i);
    }
    if (kept.size() == live_.size()) return;
    const auto pick = [&kept](const auto& from) {
      std::decay_t<decltype(from)> to;
      for (const size_t i : kept) to.push_back(from[i]);
      return to;
    };
    for (Placement& p : placements_) p.offsets = pick(p.offsets);
    live_ = pick(live_);
  }

  // `b` at both ends of every hole it fits: against a neighbour it wastes least.
  void extend(size_t p, size_t b, std::map<std::vector<Bytes>, Placement>* found) {
    const Bytes size = lane_[b].size;
    busy_.clear();
    for (size_t i = 0; i < live_.size(); i++) {
      const Bytes from = placements_[p].offsets[i];
      busy_.emplace_back(from, from + lane_[live_[i]].size);
    }
    std::sort(busy_.begin(), busy_.end());
    busy_.emplace_back(limit_, limit_);
    Bytes end = 0;
    for (const auto& [from, to] : busy_) {
      if (from >= end + size) {
        add(p, size, end, found);
        if (from - size != end) add(p, size, from - size, found);
      }
      end = std::max(end, to);
    }
  }

  void add(size_t p,
           Bytes size,
           Bytes offset,
           std::map<std::vector<Bytes>, Placement>* found) const {
    Placement next;
    next.offsets = placements_[p].offsets;
    next.offsets.push_back(offset);
    next.top = std::max(placements_[p].top, offset + size);
    next.before = p;
    const auto [it, is_new] = found->try_emplace(next.offsets, next);
    if (!is_new && next.top < it->second.top) it->second = std::move(next);
  }

  void keep_lowest() {
    std::sort(placements_.begin(), placements_.end(), [](const Placement& a, const Placement& b) {
      return std::tie(a.top, a.offsets) < std::tie(b.top, b.offsets);
    });
    if (placements_.size() > width_) placements_.resize(width_);
  }

  std::vector<Bytes> walk_back(const std::vector<size_t>& order) const {
    std::vector<Bytes> offsets(lane_.size());
    size_t at = 0;  // the lowest of the last buffer's placements
    for (size_t i = order.size(); i-- > 0;) {
      offsets[order[i]] = steps_[i][at].offset;
      at = steps_[i][at].before;
    }
    return offsets;
  }

  std::span<const Lifetime> lane_;
  Bytes limit_;
  size_t width_;
  size_t work_ = 0;
  std::vector<size_t> live_;  // indices into lane_
  std::vector<Placement> placements_;
  std::vector<std::vector<Step>> steps_;  // per placed buffer
  std::vector<std::pair<Bytes, Bytes>> busy_;
};

}  // namespace

std::optional<std::vector<Bytes>> sweep_plan(std::span<const Lifetime> lane,
                                             Bytes limit,
                                             size_t width) {
  return Sweep(lane, limit, width).run();
}

}  // namespace modeld::schedule
