#include "selftest/testing/exact_arena.h"

#include <algorithm>
#include <utility>

namespace modeld::testing {

using schedule::Bytes;
using schedule::kPlanBlock;
using schedule::Lifetime;

namespace {

// Branch and bound over all orders of rising offset. Any placement can be pushed down until each
// buffer lies at 0 or on one that is alive with it, so an order of offsets gives the offsets: a
// buffer lies on the highest placed one it overlaps. Equal offsets are tried in one order only.
class Search {
 public:
  Search(std::span<const Lifetime> lane, Bytes most, uint64_t max_steps)
      : limit_(most), max_steps_(max_steps), lane_(lane.begin(), lane.end()) {
    std::erase_if(lane_, [](const Lifetime& l) { return l.size == 0; });
    std::stable_sort(lane_.begin(), lane_.end(),
                     [](const Lifetime& a, const Lifetime& b) { return a.size > b.size; });
    std::vector<int64_t> opens;  // most is alive where something opens
    for (const Lifetime& l : lane_) opens.push_back(l.first);
    std::sort(opens.begin(), opens.end());
    opens.erase(std::unique(opens.begin(), opens.end()), opens.end());
    times_.resize(opens.size());
    buffers_.resize(lane_.size());
    for (size_t b = 0; b < lane_.size(); b++) {
      for (size_t t = 0; t < opens.size(); t++) {
        if (opens[t] < lane_[b].first || opens[t] >= lane_[b].free) continue;
        buffers_[b].times.push_back(t);
        times_[t].waiting += lane_[b].size;
      }
      for (size_t o = 0; o < lane_.size(); o++) {
        if (o != b && lane_[o].first < lane_[b].free && lane_[b].first < lane_[o].free) {
          buffers_[b].neighbours.push_back(o);
        }
      }
    }
  }

  ExactArena run() {
    if (is_open(0)) descend(0, 0, 0, 0);
    return {best_, !gave_up_};
  }

 private:
  struct Buffer {
    std::vector<size_t> times;
    std::vector<size_t> neighbours;
    Bytes base = 0;  // where it would lie if it were next
    bool is_placed = false;
  };
  struct Time {
    Bytes height = 0;   // end of the highest placed buffer alive
    Bytes waiting = 0;  // bytes alive but not placed: all of them go above height and floor
  };

  // Whether what is left can still fit under the limit when nothing goes below `floor` any more.
  bool is_open(Bytes floor) const {
    return std::all_of(times_.begin(), times_.end(), [&](const Time& t) {
      return t.waiting == 0 || std::max(t.height, floor) + t.waiting <= limit_;
    });
  }

  void descend(size_t placed, Bytes floor, size_t after, Bytes top) {
    if (placed == buffers_.size()) {
      best_ = (top + kPlanBlock - 1) / kPlanBlock * kPlanBlock;
      limit_ = best_ - std::min<Bytes>(best_, kPlanBlock);
      return;
    }
    if (++steps_ > max_steps_) gave_up_ = true;
    std::vector<std::pair<Bytes, size_t>> choices;
    for (size_t b = 0; b < buffers_.size(); b++) {
      const Bytes base = buffers_[b].base;
      if (buffers_[b].is_placed || base < floor || (base == floor && b < after)) continue;
      choices.emplace_back(base, b);
    }
    std::sort(choices.begin(), choices.end());
    for (const auto& [offset, b] : choices) {
      if (gave_up_) return;
      if (offset + lane_[b].size > limit_) continue;
      with(b, offset, [&] {
        if (is_open(offset))
          descend(placed + 1, offset, b + 1, std::max(top, offset + lane_[b].size));
      });
    }
  }

  template <class Body>
  void with(size_t b, Bytes offset, Body body) {
    const std::vector<Time> times = times_;
    std::vector<Bytes> bases;
    const Bytes end = offset + lane_[b].size;
    for (const size_t t : buffers_[b].times) {
      times_[t].height = end;
      times_[t].waiting -= lane_[b].size;
    }
    for (const size_t n : buffers_[b].neighbours) {
      bases.push_back(buffers_[n].base);
      buffers_[n].base = std::max(buffers_[n].base, end);
    }
    buffers_[b].is_placed = true;
    body();
    buffers_[b].is_placed = false;
    for (size_t i = 0; i < bases.size(); i++) buffers_[buffers_[b].neighbours[i]].base = bases[i];
    times_ = times;
  }

  Bytes limit_, best_ = 0;
  uint64_t steps_ = 0, max_steps_;
  bool gave_up_ = false;
  std::vector<Lifetime> lane_;
  std::vector<Buffer> buffers_;
  std::vector<Time> times_;
};

}  // namespace

ExactArena exact_arena(std::span<const Lifetime> lane, Bytes most, uint64_t max_steps) {
  return Search(lane, most, max_steps).run();
}

std::optional<Core> prove_optimal(std::span<const Lifetime> lane, Bytes arena, uint64_t max_steps) {
  int64_t calls = 0;
  for (const Lifetime& l : lane) calls = std::max(calls, l.free);
  for (int64_t length = 1; length <= calls; length++) {
    for (int64_t from = 0; from + length <= calls; from++) {
      std::vector<Lifetime> alive;
      Bytes sum = 0;
      for (const Lifetime& l : lane) {
        if (l.first >= from + length || l.free <= from) continue;
        alive.push_back(l);
        sum += l.size;
      }
      if (sum < arena) continue;
      const ExactArena exact = exact_arena(alive, arena - kPlanBlock, max_steps);
      if (exact.is_proven && exact.arena == 0) return Core{from, length, alive.size()};
    }
  }
  return std::nullopt;
}

}  // namespace modeld::testing
