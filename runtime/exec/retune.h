// retune: gives kernels of a plan other opts than they were built with: those a search found, or
// those another bundle recorded. Schedule, memory, weights and calls stay as they are.
// Contract: a kernel whose recorded opts are the recipe's already keeps its row untouched, so that
// retuning a plan with its own opts changes no byte; every other one asks for the recipe's opts
// explicitly (KernelInfo::opts_to_apply), so that its row alone reproduces it. Programs stay sorted
// by key. An opt that is illegal for the plan's renderer is an error naming the kernel.
// Threading: as compile_plan.
#pragma once

#include <cstddef>
#include <map>

#include "hal/base/hash.h"
#include "hal/base/status.h"

#include "runtime/exec/compile_plan.h"
#include "runtime/exec/plan.h"
#include "runtime/ir/arg.h"

namespace modeld::exec {

// Opts by kernel_identity.
using Recipes = std::map<Hash128, ir::Opts>;

// What a plan recorded for its kernels.
Result<Recipes> recipes_of(const Plan& plan);

// A kernel without a recipe.
enum class NoRecipe : uint8_t {
  kKeep,    // stays as it is
  kRefuse,  // kNotFound naming its first call
};

// Of `options` only jobs, caches, compiler, limits and progress count. Rows that change get an
// image unless options.lower_only. Returns what that took; plan.stats stays the first build's.
struct RetuneReport {
  size_t changed = 0;  // kernels
  CompileStats stats;
};
Result<RetuneReport> retune(Plan& plan,
                            const Recipes& recipes,
                            NoRecipe missing,
                            const CompileOptions& options);

}  // namespace modeld::exec
