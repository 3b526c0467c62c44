#include "runtime/schedule/planner.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "hal/base/check.h"

#include "runtime/schedule/sweep_plan.h"
#include "runtime/schedule/tlsf.h"

namespace modeld::schedule {
namespace {

Bytes round_up(Bytes v, Bytes to) {
  return (v + to - 1) / to * to;
}

// Arena bytes a placement needs: its real end, rounded to the granule once.
void grow_arena(PlanLane* lane, Bytes offset, Bytes nbytes) {
  lane->arena = std::max(lane->arena, round_up(offset + nbytes, kPlanBlock));
}

// Most bytes alive at any one call.
void fill_bounds(const std::vector<Lifetime>& lives, std::vector<PlanLane>* lanes) {
  struct Event {
    int64_t time;
    bool open;
    Bytes size;
  };
  std::vector<std::vector<Event>> events(lanes->size());
  for (const Lifetime& l : lives) {
    events[l.lane].push_back({l.first, true, l.size});
    events[l.lane].push_back({l.free, false, l.size});
    (*lanes)[l.lane].sum += l.size;
  }
  for (size_t i = 0; i < lanes->size(); i++) {
    std::stable_sort(events[i].begin(), events[i].end(), [](const Event& a, const Event& b) {
      return std::pair(a.time, a.open) < std::pair(b.time, b.open);
    });
    Bytes now = 0;
    for (const Event& e : events[i]) {
      now = e.open ? now + e.size : now - e.size;
      (*lanes)[i].lower_bound = std::max((*lanes)[i].lower_bound, now);
    }
  }
}

PlanOutput start_output(const PlanInput& in, std::vector<Lifetime>* lives) {
  PlanOutput out;
  *lives = lifetimes(in, &out.lanes);
  out.places.resize(in.buffers.size());
  fill_bounds(*lives, &out.lanes);
  return out;
}

bool overlaps(const Lifetime& a, const Lifetime& b) {
  return a.first < b.free && b.first < a.free;
}

// The lowest offset of the tightest hole that holds `size` among the sorted busy intervals.
Bytes tightest_hole(const std::vector<std::pair<Bytes, Bytes>>& busy, Bytes size) {
  Bytes end = 0;
  std::optional<std::pair<Bytes, Bytes>> best;  // hole size, offset
  for (const auto& [from, to] : busy) {
    if (from > end && from - end >= size && (!best || from - end < best->first)) {
      best = {from - end, end};
    }
    end = std::max(end, to);
  }
  return best ? best->second : end;
}

// Places one lane's buffers in the given order; returns the arena.
Bytes place_in_order(const PlanInput& in,
                     const std::vector<Lifetime>& order,
                     std::vector<PlanPlace>* places) {
  std::vector<std::pair<const Lifetime*, Bytes>> placed;
  Bytes arena = 0;
  for (const Lifetime& l : order) {
    std::vector<std::pair<Bytes, Bytes>> busy;
    for (const auto& [other, offset] : placed) {
      if (overlaps(l, *other)) busy.emplace_back(offset, offset + other->size);
    }
    std::sort(busy.begin(), busy.end());
    const Bytes offset = tightest_hole(busy, l.size);
    placed.emplace_back(&l, offset);
    (*places)[l.buffer] = {static_cast<int64_t>(l.lane), offset};
    arena = std::max(arena, round_up(offset + in.buffers[l.buffer].nbytes, kPlanBlock));
  }
  return arena;
}

std::vector<Lifetime> lives_of(const std::vector<Lifetime>& lives, size_t lane) {
  std::vector<Lifetime> out;
  std::copy_if(lives.begin(), lives.end(), std::back_inserter(out),
               [lane](const Lifetime& l) { return l.lane == lane; });
  return out;
}

// Best fit in two orders, large first and early first: neither wins always.
void best_fit_lane(const PlanInput& in, std::vector<Lifetime> lane, size_t index, PlanOutput* out) {
  std::stable_sort(lane.begin(), lane.end(), [](const Lifetime& a, const Lifetime& b) {
    const int64_t span_a = a.free - a.first;
    const int64_t span_b = b.free - b.first;
    return std::pair(b.size, span_b) < std::pair(a.size, span_a);
  });
  std::vector<PlanPlace> by_size = out->places;
  const Bytes size_arena = place_in_order(in, lane, &by_size);
  std::stable_sort(lane.begin(), lane.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.first < b.first; });
  std::vector<PlanPlace> by_time = out->places;
  const Bytes time_arena = place_in_order(in, lane, &by_time);
  out->places = time_arena < size_arena ? std::move(by_time) : std::move(by_size);
  out->lanes[index].arena = std::min(size_arena, time_arena);
  out->lanes[index].method = PlanMethod::kBestFit;
}

constexpr size_t kNarrowSweep = 32;  // nearly always enough, in milliseconds
constexpr size_t kWideSweep = 256;
constexpr int kSweepTrials = 8;  // arena sizes between the bound and the best so far

// The sweep decides forwards; what it cannot see coming it may see going, so time is turned round
// when it finds nothing.
std::optional<std::vector<Bytes>> sweep_both_ways(const std::vector<Lifetime>& lane,
                                                  Bytes limit,
                                                  size_t width) {
  if (auto offsets = sweep_plan(lane, limit, width)) return offsets;
  std::vector<Lifetime> mirrored = lane;
  for (Lifetime& l : mirrored) {
    const int64_t first = l.first;
    l.first = -l.free;
    l.free = -first;
  }
  return sweep_plan(mirrored, limit, width);
}

// Every buffer down onto the highest one below it: what a sweep put at a hole's upper end may lie
// lower, and low bytes are more likely used again.
void settle(const std::vector<Lifetime>& lane, std::vector<Bytes>* offsets) {
  std::vector<size_t> order(lane.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return (*offsets)[a] < (*offsets)[b]; });
  for (size_t i = 0; i < order.size(); i++) {
    Bytes floor = 0;
    for (size_t j = 0; j < i; j++) {
      if (!overlaps(lane[order[i]], lane[order[j]])) continue;
      floor = std::max(floor, (*offsets)[order[j]] + lane[order[j]].size);
    }
    (*offsets)[order[i]] = floor;
  }
}

// Takes over a sweep's offsets when it finds a place for all within `limit`.
bool try_sweep(
    const std::vector<Lifetime>& lane, size_t index, Bytes limit, size_t width, PlanOutput* out) {
  auto offsets = sweep_both_ways(lane, limit, width);
  if (!offsets) return false;
  settle(lane, &*offsets);
  Bytes arena = 0;
  for (size_t i = 0; i < lane.size(); i++) {
    out->places[lane[i].buffer].offset = (*offsets)[i];
    arena = std::max(arena, (*offsets)[i] + lane[i].size);
  }
  out->lanes[index].arena = arena;
  out->lanes[index].method = PlanMethod::kSweep;
  return true;
}

// Asks the sweep for the lower bound first, then halves what is left between the two.
void sweep_lane(std::vector<Lifetime> lane, size_t index, PlanOutput* out) {
  std::erase_if(lane, [](const Lifetime& l) { return l.size == 0; });  // they lie at 0 already
  PlanLane& l = out->lanes[index];
  if (l.arena == l.lower_bound) return;
  if (try_sweep(lane, index, l.lower_bound, kNarrowSweep, out)) return;
  Bytes low = l.lower_bound;  // nothing was found below
  for (int i = 0; i < kSweepTrials && low < l.arena; i++) {
    const Bytes limit = i == 0 ? low : low + (l.arena - low) / 2 / kPlanBlock * kPlanBlock;
    if (limit >= l.arena || !try_sweep(lane, index, limit, kWideSweep, out)) {
      low = limit + kPlanBlock;
    }
  }
}

}  // namespace

bool is_plannable_device(const std::string& device) {
  for (size_t from = 0; from <= device.size();) {
    const size_t to = std::min(device.find(',', from), device.size());
    const std::string_view name = std::string_view(device).substr(from, to - from);
    const std::string_view kind = name.substr(0, name.find(':'));
    if (kind == "DISK" || kind == "TINYFS" || kind == "CL" || kind == "WEBGPU") return false;
    from = to + 1;
  }
  return true;
}

std::vector<Lifetime> lifetimes(const PlanInput& in, std::vector<PlanLane>* lanes) {
  std::vector<Lifetime> lives;
  std::vector<int64_t> known(in.buffers.size(), -1);  // position in `lives`
  std::vector<bool> copied(in.buffers.size(), false);
  for (size_t call = 0; call < in.calls.size(); call++) {
    for (size_t b : in.calls[call].args) {
      CHECK(b < in.buffers.size());
      if (in.calls[call].copy) copied[b] = true;
      if (in.buffers[b].held || !is_plannable_device(in.buffers[b].device)) continue;
      const auto time = static_cast<int64_t>(call);
      if (known[b] < 0) {
        known[b] = static_cast<int64_t>(lives.size());
        lives.push_back({b, time, time, 0, 0, round_up(in.buffers[b].nbytes, kPlanBlock)});
      }
      lives[static_cast<size_t>(known[b])].last = time;
    }
  }
  std::map<std::pair<std::string, bool>, size_t> lane_of;
  for (Lifetime& l : lives) {
    const int64_t hold = copied[l.buffer] ? l.last - l.first + 1 : 0;
    l.free = l.last + 1 + hold;
    const std::pair key(in.buffers[l.buffer].device, bool{copied[l.buffer]});
    const auto [it, is_new] = lane_of.try_emplace(key, lanes->size());
    if (is_new) lanes->push_back({key.first, key.second, 0, 0, 0, PlanMethod::kTlsf});
    l.lane = it->second;
  }
  return lives;
}

PlanOutput plan_tlsf(const PlanInput& in) {
  std::vector<Lifetime> lives;
  PlanOutput out = start_output(in, &lives);
  struct Event {
    int64_t time;
    bool open;
    const Lifetime* life;
  };
  std::vector<Event> events;
  for (const Lifetime& l : lives) events.push_back({l.first, true, &l});
  for (const Lifetime& l : lives) events.push_back({l.free, false, &l});
  // Frees come before opens of the same time: what call i used last, call i + 1 may take.
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::pair(a.time, a.open) < std::pair(b.time, b.open);
  });
  std::vector<Tlsf> arenas;
  for (const PlanLane& lane : out.lanes) arenas.emplace_back(2 * lane.sum);
  for (const Event& e : events) {
    Tlsf& arena = arenas[e.life->lane];
    if (e.life->size == 0) {
      out.places[e.life->buffer] = {static_cast<int64_t>(e.life->lane), 0};
      continue;
    }
    if (!e.open) {
      arena.free(out.places[e.life->buffer].offset);
      continue;
    }
    const std::optional<Bytes> offset = arena.alloc(e.life->size);
    CHECK(offset.has_value());  // capacity is twice the sum of all sizes
    out.places[e.life->buffer] = {static_cast<int64_t>(e.life->lane), *offset};
    grow_arena(&out.lanes[e.life->lane], *offset, in.buffers[e.life->buffer].nbytes);
  }
  return out;
}

PlanOutput plan_best_fit(const PlanInput& in) {
  std::vector<Lifetime> lives;
  PlanOutput out = start_output(in, &lives);
  for (size_t i = 0; i < out.lanes.size(); i++) {
    best_fit_lane(in, lives_of(lives, i), i, &out);
  }
  return out;
}

PlanOutput plan_memory(const PlanInput& in, bool offline) {
  PlanOutput out = plan_tlsf(in);
  if (!offline) return out;
  std::vector<PlanLane> ignored;
  const std::vector<Lifetime> lives = lifetimes(in, &ignored);
  for (size_t l = 0; l < out.lanes.size(); l++) {
    if (out.lanes[l].arena == out.lanes[l].lower_bound) continue;
    const std::vector<Lifetime> lane = lives_of(lives, l);
    PlanOutput fit = out;
    best_fit_lane(in, lane, l, &fit);
    if (fit.lanes[l].arena < out.lanes[l].arena) out = std::move(fit);
    sweep_lane(lane, l, &out);
  }
  return out;
}

}  // namespace modeld::schedule
