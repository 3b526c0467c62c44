#include "runtime/exec/beam_judge.h"

#include <algorithm>
#include <utility>

#include "hal/base/clock.h"

namespace modeld::exec {

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

Result<Turns> take_turns(int turns,
                         const std::function<Result<double>()>& first,
                         const std::function<Result<double>()>& second) {
  std::vector<double> times[2];
  for (int i = -1; i < std::max(turns, 1); ++i)
    for (int side = 0; side < 2; ++side) {
      ASSIGN_OR_RETURN(const double us, side == 0 ? first() : second());
      if (i >= 0) times[side].push_back(us);
    }
  return Turns{median(std::move(times[0])), median(std::move(times[1]))};
}

Result<Verdict> judge_winner(KernelBench& bench, const Contest& c, const JudgeLimits& limits) {
  ASSIGN_OR_RETURN(KernelBench::Loaded plain, bench.load(*c.plain));
  ASSIGN_OR_RETURN(KernelBench::Loaded rule, bench.load(*c.rule));
  ASSIGN_OR_RETURN(KernelBench::Loaded winner, bench.load(*c.winner));
  ASSIGN_OR_RETURN(const auto want, bench.outputs(plain));
  ASSIGN_OR_RETURN(const auto got, bench.outputs(winner));
  Verdict v;
  const double tolerance = limits.is_exact ? 0 : 1;
  if (const Status same = compare_outputs(got, want, tolerance); !same.ok()) {
    v.note = "the winner is wrong: " + same.error().what;
    return v;
  }
  ASSIGN_OR_RETURN(const Turns t, take_turns(
                                      limits.turns, [&] { return bench.run_us(rule); },
                                      [&] { return bench.run_us(winner); }));
  v.rule_us = t.first;
  v.winner_us = t.second;
  v.is_winner = t.second < t.first * (1 - limits.least_gain);
  if (!v.is_winner) v.note = "no faster than the rule's choice";
  return v;
}

Result<std::unique_ptr<PlanBench>> PlanBench::create(const Plan& plan,
                                                     const std::string& entry,
                                                     hal::Device& device) {
  const Entry* e = plan.find_entry(entry);
  if (e == nullptr) return fail(Errc::kNotFound, "the plan has no entry point " + entry);
  std::unique_ptr<PlanBench> out(new PlanBench());
  out->slots_.resize(e->slot_count());
  for (const std::vector<TensorInfo>* list : {&e->inputs, &e->outputs})
    for (const TensorInfo& t : *list) {
      hal::BufferDesc desc;
      desc.size_bytes = std::max<uint64_t>(t.bytes, 1);
      desc.flags = hal::Mem::kZero;
      ASSIGN_OR_RETURN(hal::Buffer b, device.allocator().alloc(desc));
      out->slots_[t.slot] = b.addr();
      out->scratch_.push_back(std::move(b));
    }
  for (const ScalarInfo& s : e->scalars)
    out->slots_[s.slot] = static_cast<uint64_t>(std::clamp<int64_t>(0, s.vmin, s.vmax));
  ASSIGN_OR_RETURN(out->loaded_, LoadedPlan::load(plan, device));
  ASSIGN_OR_RETURN(out->id_, out->loaded_->entry(entry));
  return out;
}

Result<double> PlanBench::run_us() {
  const int64_t start = now_ns();
  RETURN_IF_ERROR(loaded_->run(id_, slots_, Deadline::in_ms(kRunLimitMs)));
  return static_cast<double>(now_ns() - start) / 1e3;
}

}  // namespace modeld::exec
