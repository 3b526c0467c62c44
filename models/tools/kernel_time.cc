#include "models/tools/kernel_time.h"

#include <algorithm>

#include "hal/base/clock.h"

#include "models/tools/kernel_sample.h"
#include "models/tools/session.h"

namespace modeld::tools {
namespace {

constexpr size_t kCallsPerRun = 8;
constexpr int kRuns = 9, kFewestRuns = 3;
constexpr int64_t kBudgetNs = 50 * kNsPerMs;  // per kernel; the first kFewestRuns may exceed it

Result<int64_t> median_call(exec::LoadedPlan& loaded, size_t program, const BoundSample& bound) {
  ASSIGN_OR_RETURN(const exec::EntryId id, loaded.entry(kernel_entry(program)));
  RETURN_IF_ERROR(loaded.run(id, bound.slots, Deadline::in_ms(kRunLimitMs)));  // warms up
  std::vector<int64_t> times;
  const int64_t start = now_ns();
  while (static_cast<int>(times.size()) < kRuns) {
    const int64_t before = now_ns();
    if (static_cast<int>(times.size()) >= kFewestRuns && before - start > kBudgetNs) break;
    RETURN_IF_ERROR(loaded.run(id, bound.slots, Deadline::in_ms(kRunLimitMs)));
    times.push_back(now_ns() - before);
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return std::max<int64_t>(times[times.size() / 2] / static_cast<int64_t>(kCallsPerRun), 1);
}

}  // namespace

Result<std::vector<int64_t>> time_kernels(const bundle::Manifest& m,
                                          const KernelSide& side,
                                          uint64_t seed) {
  ASSIGN_OR_RETURN(const KernelSamples samples, sample_kernels(m, *side.plan, seed));
  const exec::Plan plan = kernel_plan(*side.plan, samples, kCallsPerRun);
  ASSIGN_OR_RETURN(const auto loaded, exec::LoadedPlan::load(plan, *side.device, side.sources));
  std::vector<int64_t> out(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!samples[i]) continue;
    ASSIGN_OR_RETURN(const BoundSample bound, bind_sample(*side.device, *samples[i]));
    ASSIGN_OR_RETURN(out[i], median_call(*loaded, i, bound));
  }
  return out;
}

}  // namespace modeld::tools
