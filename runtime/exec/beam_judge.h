// How a search's winner is judged: proved against the unoptimised kernel, then timed in turns with
// the rule's choice; and a whole plan as one side of such turns.
// Contract: the two sides alternate, so that whatever disturbs the machine disturbs both; the
// figure is the median. Units: microseconds. Threading: one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hal/base/status.h"
#include "hal/device.h"

#include "runtime/exec/beam_compile.h"
#include "runtime/exec/beam_kernel.h"
#include "runtime/exec/loaded_plan.h"

namespace modeld::exec {

struct Turns {
  double first = 0, second = 0;  // medians, us
};
// One run of each beforehand, not counted. `turns` at least 1.
Result<Turns> take_turns(int turns,
                         const std::function<Result<double>()>& first,
                         const std::function<Result<double>()>& second);

struct JudgeLimits {
  int turns = 15;
  double least_gain = 0.02;  // of the rule's time; a winner that gains less is noise
  bool is_exact = false;     // kernels without contraction have one right result, to the bit
};
struct Contest {
  const Candidate* plain = nullptr;  // without any opts
  const Candidate* rule = nullptr;
  const Candidate* winner = nullptr;
};
struct Verdict {
  double rule_us = 0, winner_us = 0;  // 0: not timed
  bool is_winner = false;
  std::string note;  // why not, for people
};
// Errors are those of the device; a wrong or slow winner is a verdict.
Result<Verdict> judge_winner(KernelBench& bench, const Contest& contest, const JudgeLimits& limits);

// One entry of a plan on a device with scratch inputs (zeroes) and outputs.
class PlanBench {
 public:
  static constexpr int64_t kRunLimitMs = 60'000;

  // The plan may go afterwards; the device must outlive this object.
  static Result<std::unique_ptr<PlanBench>> create(const Plan& plan,
                                                   const std::string& entry,
                                                   hal::Device& device);
  Result<double> run_us();

 private:
  PlanBench() = default;
  std::vector<hal::Buffer> scratch_;
  std::vector<uint64_t> slots_;
  EntryId id_;
  std::unique_ptr<LoadedPlan> loaded_;
};

}  // namespace modeld::exec
