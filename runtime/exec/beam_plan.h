// beam_plan: searches the opts of a plan's kernels by timing them on this machine's device, proves
// each winner against the unoptimised kernel, and keeps it only where it beats the rule's choice
// when both run in turns; the whole plan is then timed in turns as well, and what is not faster
// goes back. Contract: the plan changes only by retune(). Kernels that ask for opts by name are
// left alone, and so are those that take less than `least_share` of the plan. Findings are kept on
// disk by kernel and by plan: the same plan with the same settings needs no timing again and gives
// the same bytes. A result depends on measured times, so two machines, or two cold searches, may
// differ; opts are in the bundle, and retune() repeats them. Opens devices of its own: kUnsupported
// on a thread that holds a DeviceBan, and for a target that this host cannot run. Units:
// microseconds and milliseconds, in the names. Threading: one thread calls; candidates are compiled
// on `compile.jobs` more, never while timing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/codegen/beam_search.h"
#include "runtime/exec/beam_cache.h"
#include "runtime/exec/compile_plan.h"
#include "runtime/exec/plan.h"

namespace modeld::exec {

struct BeamOptions {
  int64_t width = 4;
  codegen::BeamLimits limits;
  int64_t compile_limit_ms = 10'000;  // per candidate
  int turns = 15;                     // of winner and rule
  double least_gain = 0.02;           // a winner that gains less is noise
  double least_share = 0.005;         // of the plan's kernel time
  CompileOptions compile;  // jobs, caches, compiler; the beam's own lie beside the images
  // stage "beam 3/57", then candidates timed in this round.
  std::function<void(const std::string& stage, size_t done, size_t total)> progress;
};

struct BeamKernel {
  enum class Origin : uint8_t { kSearched, kCached, kSkipped };
  std::string name;    // as the rule built it
  uint64_t calls = 0;  // in all entries
  Origin origin = Origin::kSkipped;
  BeamFinding finding;
};

struct BeamReport {
  std::vector<BeamKernel> kernels;  // in the order of the plan before
  std::string entry;                // whose whole run was timed
  double heuristic_ms = 0, winner_ms = 0;
  bool is_kept = true;     // false: the plan with winners was not faster, and the rule's stays
  bool is_cached = false;  // nothing was timed
  size_t changed = 0;      // kernels of the plan with other opts now
  uint64_t tried = 0, compiled = 0, timed = 0;  // candidates
  int64_t search_ns = 0;
};

Result<BeamReport> beam_plan(Plan& plan, const BeamOptions& options);

}  // namespace modeld::exec
