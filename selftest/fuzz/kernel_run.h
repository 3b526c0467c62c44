// Kernels of recipes, lowered, compiled and run, each output element held against the oracle. All
// kernels of a batch that need a compiler share one call of it.
// Contract: case `number` of `seed` is the same on every host, but for the CPU's features.
// Threading: a batch per thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "selftest/fuzz/kernel_lower.h"
#include "selftest/fuzz/kernel_opts.h"
#include "selftest/fuzz/kernel_recipe.h"

namespace modeld::fuzz {

struct KernelFinding {
  enum class Kind : uint8_t { kNone, kPlan, kLower, kCompile, kRun, kValue };
  Kind kind = Kind::kNone;
  std::string text;
  explicit operator bool() const { return kind != Kind::kNone; }
};

// One recipe with what it is lowered for.
struct KernelTrial {
  uint64_t number = 0;  // chooses renderer options
  KernelRecipe recipe;
  std::optional<ir::Opts> opts;  // else random ones are planned
};

struct TrialResult {
  KernelFinding finding;
  ir::Opts applied;
  size_t refused = 0;
  uint64_t elements = 0, unknown = 0;  // compared, and among them such that nobody can foretell
  size_t kernels = 0;                  // programs made of it
};

struct RunOptions {
  uint64_t seed = 1;
  bool with_c = true, with_x86 = true;
  bool with_gpu = true;  // work groups, interpreted (program_interp.h)
  const KernelDefect* defect = nullptr;
  TryOpt attempt = try_opt;
  bool show_sources = false;  // programs are printed before they run
};

bool host_has_x86_path();
KernelTrial numbered_trial(uint64_t seed, uint64_t number);
std::vector<TrialResult> run_trials(const std::vector<KernelTrial>& trials, const RunOptions& o);

}  // namespace modeld::fuzz
