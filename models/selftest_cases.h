// Self-test cases of a loaded bundle on the device that will drive: the golden vectors, the finite
// check, a stalled queue. The daemon's SELFTEST state runs the golden ones, the boot self-test all.
// Contract: nothing of a model's state is touched (buffers of their own); each case runs twice and
// the second result must have the bits of the first. Numbers pass within tolerance x max|golden|,
// integers exactly; a golden number that is not finite must come back as the same kind. Units:
// bytes. Threading: one thread; the device is idle before and after.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hal/base/clock.h"
#include "hal/base/status.h"

#include "runtime/exec/loaded_plan.h"

#include "models/bundle/manifest.h"

namespace modeld::models {

struct CaseResult {
  std::string name;  // "golden/run"
  bool has_passed = false;
  std::string text;            // the first thing wrong, empty when passed
  double worst_error = 0;      // golden: max |difference| / max |golden| over all outputs
  bool matches_golden = true;  // golden: the two findings apart
  bool is_repeatable = true;
};

// One result per golden case; `golden` is the bundle's golden section. An error means that a case
// could not be run.
Result<std::vector<CaseResult>> run_golden_cases(const bundle::Manifest& manifest,
                                                 std::span<const std::byte> golden,
                                                 exec::LoadedPlan& plan,
                                                 Deadline deadline);

// Puts NaN and both infinities into every float output and next state, at its first, middle and
// last number, and one number everywhere into the raw vector: the check that comes before every
// commit must name each, and must accept good numbers before and after.
Result<CaseResult> run_finite_case(const bundle::Manifest& manifest,
                                   exec::LoadedPlan& plan,
                                   Deadline deadline);

// Stalls the device's queue for kStallMs: the wait must end as a timeout, at its deadline, and the
// device must work again after the stall. Needs no model.
inline constexpr int64_t kStallMs = 20;
Result<CaseResult> run_deadline_case(hal::Device& device);

}  // namespace modeld::models
