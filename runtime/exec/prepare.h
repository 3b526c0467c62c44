// prepare: gives every call of a plan its binary, or refuses the plan. This is the one place that
// may compile after the bundle was built; it runs before a model is READY, never later. Contract:
// kMissing compiles exactly the programs without an image, from their AST text and with the plan's
// own code-generation configuration, so that the result has the bytes of the offline build; kNever
// refuses a plan that lacks one: kCompile naming the first such call. A complete plan needs no
// compiler, no cache and no thread.
// Threading: as compile_plan.
#pragma once

#include <cstddef>
#include <string_view>

#include "hal/base/status.h"

#include "runtime/exec/compile_plan.h"
#include "runtime/exec/plan.h"

namespace modeld::exec {

enum class PreparePolicy : uint8_t { kMissing, kNever };
Result<PreparePolicy> parse_prepare_policy(std::string_view text);  // "missing" | "never"

// The options `plan` was compiled with: its target and code-generation configuration, all else from
// `given`. kMismatch when this program cannot reproduce the configuration.
Result<CompileOptions> plan_options(const Plan& plan, const CompileOptions& given);

struct PrepareReport {
  size_t prepared = 0;  // programs that got an image here
  // The compiler here is not the plan's: the new images are right, but not the offline build's
  // bytes.
  bool is_other_compiler = false;
  CompileStats stats;
};

// "call 12 (r_64_32) of entry run", for the first call of this program.
std::string first_use(const Plan& plan, uint32_t program);

// Of `options` only jobs, cache, compiler, limits and progress count; target and configuration are
// the plan's. The dry run that ends preparation is LoadedPlan::dry_run.
Result<PrepareReport> prepare(Plan& plan, PreparePolicy policy, const CompileOptions& options);

}  // namespace modeld::exec
