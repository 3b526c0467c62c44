#include "runtime/codegen/beam_search.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "runtime/codegen/tensor_cores.h"

namespace modeld::codegen {

using ir::AxisType;
using ir::Opt;
using ir::OptOp;

namespace {

struct Member {
  Scheduler at;
  double us;
};

struct Timed {
  size_t candidate;
  double us;
};

// One search: the state that outlives a round.
class Search {
 public:
  Search(const BeamLimits& limits, const BeamHooks& hooks) : limits_(limits), hooks_(hooks) {}
  BeamResult run(const Scheduler& start, size_t width, std::span<const ir::Opts> seeds);

 private:
  std::vector<Scheduler> expand(const std::vector<Member>& beam);
  void add_seeds(const Scheduler& start,
                 std::span<const ir::Opts> seeds,
                 std::vector<Scheduler>& candidates);
  std::vector<size_t> worth_timing(const std::vector<std::optional<BeamProgram>>& programs);
  std::vector<Timed> time_round(const std::vector<Scheduler>& candidates, double best_us);

  const BeamLimits& limits_;
  const BeamHooks& hooks_;
  std::set<std::string> seen_bytes_;
  BeamResult result_;
};

std::vector<Scheduler> Search::expand(const std::vector<Member>& beam) {
  std::vector<Scheduler> out;
  for (const Member& m : beam)
    for (Scheduler& s : beam_candidates(m.at, limits_)) {
      ++result_.tried;
      out.push_back(std::move(s));
    }
  return out;
}

std::vector<size_t> Search::worth_timing(const std::vector<std::optional<BeamProgram>>& programs) {
  std::vector<size_t> fresh;
  int64_t least_ops = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < programs.size(); ++i) {
    if (!programs[i] || programs[i]->instructions >= limits_.instructions) {
      ++result_.dropped;
      continue;
    }
    ++result_.compiled;
    if (!seen_bytes_.insert(programs[i]->bytes).second) {
      ++result_.repeated;
      continue;
    }
    least_ops = std::min(least_ops, std::max<int64_t>(programs[i]->ops, 1));
    fresh.push_back(i);
  }
  const auto too_much = [&](size_t i) {
    return static_cast<double>(programs[i]->ops) >
           limits_.ops_ratio * static_cast<double>(least_ops);
  };
  result_.dropped += std::erase_if(fresh, too_much);
  return fresh;
}

std::vector<Timed> Search::time_round(const std::vector<Scheduler>& candidates, double best_us) {
  std::vector<ir::Opts> lists;
  for (const Scheduler& s : candidates) lists.push_back(s.applied_opts());
  const auto programs = hooks_.compile(lists);
  const std::vector<size_t> worth = worth_timing(programs);
  std::vector<Timed> timed;
  for (size_t k = 0; k < worth.size(); ++k) {
    const auto us = guarded_time(limits_.runs, limits_.stop_ratio * best_us,
                                 [&] { return hooks_.run_us(worth[k]); });
    if (us) {
      timed.push_back({worth[k], *us});
      best_us = std::min(best_us, *us);
      ++result_.timed;
    }
    if (hooks_.progress) hooks_.progress(k + 1, worth.size());
  }
  std::stable_sort(timed.begin(), timed.end(),
                   [](const Timed& a, const Timed& b) { return a.us < b.us; });
  return timed;
}

void Search::add_seeds(const Scheduler& start,
                       std::span<const ir::Opts> seeds,
                       std::vector<Scheduler>& candidates) {
  for (const ir::Opts& seed : seeds) {
    Scheduler s = start;
    const bool is_legal =
        std::all_of(seed.begin(), seed.end(), [&](const Opt& o) { return s.apply_opt(o).ok(); });
    const bool is_new = std::none_of(candidates.begin(), candidates.end(), [&](const auto& c) {
      return c.applied_opts() == s.applied_opts();
    });
    if (!is_legal || !is_new) continue;
    ++result_.tried;
    candidates.push_back(std::move(s));
  }
}

BeamResult Search::run(const Scheduler& start, size_t width, std::span<const ir::Opts> seeds) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<Member> beam{{start, kNever}};
  while (result_.rounds < limits_.max_rounds) {
    std::vector<Scheduler> candidates = expand(beam);
    if (result_.rounds == 0) add_seeds(start, seeds, candidates);
    if (candidates.empty()) break;
    ++result_.rounds;
    const double before = beam[0].us;
    const std::vector<Timed> timed = time_round(candidates, before);
    if (timed.empty()) break;
    const bool is_last =
        timed[0].us < limits_.min_progress_us || before - timed[0].us < limits_.min_progress_us;
    if (timed[0].us < before) {
      std::vector<Member> next;
      for (size_t i = 0; i < std::min(width, timed.size()); ++i)
        next.push_back({candidates[timed[i].candidate], timed[i].us});
      beam = std::move(next);
    }
    if (is_last) break;
  }
  result_.opts = beam[0].at.applied_opts();
  result_.us = beam[0].us;
  return result_;
}

bool within_limits(const Scheduler& s, const BeamLimits& limits) {
  int64_t local = 1;
  for (const size_t a : s.axes_of({AxisType::kWarp, AxisType::kLocal, AxisType::kGroupReduce}))
    local *= s.size(a);
  return s.upcast_size() <= limits.upcast && local <= limits.local;
}

void add(std::vector<Opt>& out, OptOp op, int64_t axes, std::initializer_list<int64_t> amounts) {
  for (int64_t axis = 0; axis < axes; ++axis)
    for (const int64_t n : amounts) out.push_back({op, axis, n});
}

}  // namespace

std::vector<Opt> beam_actions(const RendererCaps& caps, const BeamLimits& limits) {
  std::vector<Opt> out;
  add(out, OptOp::kUpcast, 8, {0, 2, 3, 4, 5, 7});
  add(out, OptOp::kUnroll, 5, {0, 4, 7});
  add(out, OptOp::kLocal, 6, {2, 3, 4, 8, 13, 16, 29});
  add(out, OptOp::kGroupTop, 3, {13, 16, 28, 29, 32, 49, 64, 256});
  add(out, OptOp::kGroup, 3, {0, 4, 8, 16});
  if (limits.pad_to) add(out, OptOp::kPadTo, 7, {32});
  out.push_back({OptOp::kLocal, 0, 32});
  out.push_back({OptOp::kLocal, 6, 2});
  if (!caps.tensor_cores.empty()) {
    out.push_back({OptOp::kTc, 0, tc_number(TcChoice{-1, 0, 1})});
    add(out, OptOp::kTc, 9, {tc_number(TcChoice{-1, 2, 1})});
  }
  for (int64_t a = 0; a < 5; ++a)
    for (int64_t b = a + 1; b < 5; ++b) out.push_back({OptOp::kSwap, a, b});
  add(out, OptOp::kThread, 3, {2, 3, 4, 5, 8, 12, 16, 24, 32, 64});
  if (caps.has_locals) out.push_back({OptOp::kNoLocals, 0, 0});
  return out;
}

std::vector<Scheduler> beam_candidates(const Scheduler& start, const BeamLimits& limits) {
  const std::vector<Opt> actions = beam_actions(start.options().caps, limits);
  const auto has_whole_form = [&](const Opt& a) {
    return std::find(actions.begin(), actions.end(), Opt{a.op, a.axis, 0}) != actions.end();
  };
  std::vector<Scheduler> out;
  for (const Opt& a : actions) {
    if (a.arg != 0 && start.axis_size_of(a) == a.arg && has_whole_form(a)) continue;
    Scheduler next = start;
    if (!next.apply_opt(a).ok() || !within_limits(next, limits)) continue;
    out.push_back(std::move(next));
  }
  return out;
}

std::optional<double> guarded_time(int runs,
                                   double stop_us,
                                   const std::function<std::optional<double>()>& run_us) {
  constexpr double kSpread = 0.5;
  std::vector<double> all;
  const auto middle = [&all] {
    std::sort(all.begin(), all.end());
    return all[(all.size() - 1) / 2];
  };
  const auto run = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const std::optional<double> us = run_us();
      if (!us) return false;
      all.push_back(*us);
      if (all.size() == 1 && *us > stop_us) return true;
    }
    return true;
  };
  if (!run(std::max(runs, 1))) return std::nullopt;
  double median = middle();
  if (all.size() >= 3 && all.back() - all.front() > kSpread * median) {
    if (!run(2)) return std::nullopt;
    median = middle();
  }
  return median;
}

BeamResult beam_search(const Scheduler& start,
                       int64_t width,
                       const BeamLimits& limits,
                       const BeamHooks& hooks,
                       std::span<const ir::Opts> seeds) {
  const auto size = static_cast<size_t>(std::max<int64_t>(width, 1));
  return Search(limits, hooks).run(start, size, seeds);
}

}  // namespace modeld::codegen
