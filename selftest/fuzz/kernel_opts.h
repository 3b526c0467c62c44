// Random lists of opts for a kernel, tried one by one on a Scheduler. What must be refused is
// foretold from the axes alone (pipeline hand-book 6.2), by rules written a second time here; a
// refused opt must leave the Scheduler as it was.
// Threading: one thread, as the Graph.
#pragma once

#include <string>
#include <vector>

#include "runtime/codegen/options.h"
#include "runtime/codegen/scheduler.h"

#include "selftest/fuzz/fuzz_main.h"

namespace modeld::fuzz {

// "" if `opt` is legal on `s`, else the rule it breaks.
std::string forecast(const codegen::Scheduler& s, const ir::Opt& opt);

struct OptsPlan {
  ir::Opts applied;
  ir::Opts refused;     // each on the state after what had been applied by then
  ir::Opts bad_list;    // a prefix of `applied` and one that must be refused; may be empty
  std::string finding;  // "" or what went against the forecast
};

// How an opt is tried; --self-proof puts a faulty one in its place.
using TryOpt = Status (*)(codegen::Scheduler& s, const ir::Opt& opt);
Status try_opt(codegen::Scheduler& s, const ir::Opt& opt);

// `ast`: as kernel_ast() makes it. The passes before apply_opts run here.
Result<OptsPlan> plan_opts(ir::Graph& g,
                           const ir::Node* ast,
                           const codegen::CodegenOptions& options,
                           Rng& rng,
                           TryOpt attempt = try_opt);

}  // namespace modeld::fuzz
