#include "runtime/exec/retune.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/exec/kernel_ast.h"
#include "runtime/exec/lower_and_compile.h"
#include "runtime/exec/prepare.h"
#include "runtime/ir/print.h"

namespace modeld::exec {

namespace {

struct Change {
  size_t program;
  KernelRequest request;
};

Result<std::vector<Change>> changes_of(ir::Graph& g,
                                       const Plan& plan,
                                       const Recipes& recipes,
                                       NoRecipe missing) {
  std::vector<Change> out;
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    const ProgramRow& row = plan.programs[i];
    const std::string use = first_use(plan, static_cast<uint32_t>(i));
    ASSIGN_OR_RETURN(const ir::Node* ast, kernel_ast(g, row, use));
    const auto at = recipes.find(kernel_identity(g, ast, row.no_contract));
    if (at == recipes.end() && missing == NoRecipe::kKeep) continue;
    if (at == recipes.end())
      return fail(Errc::kNotFound, strf("%s: no opts are recorded for this kernel", use.c_str()));
    if (ir::opts_text(at->second) == row.applied_opts) continue;
    out.push_back({i, {with_opts(g, ast, at->second), row.no_contract, use}});
  }
  return out;
}

// Programs by key again, and calls to their new places.
void sort_programs(Plan& plan) {
  std::vector<uint32_t> order(plan.programs.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return plan.programs[a].key < plan.programs[b].key; });
  std::vector<ProgramRow> sorted;
  std::vector<uint32_t> place(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    sorted.push_back(std::move(plan.programs[order[i]]));
  }
  plan.programs = std::move(sorted);
  for (Entry& e : plan.entries)
    for (CallRow& c : e.calls)
      if (c.kind == CallRow::Kind::kProgram) c.program = place[c.program];
}

}  // namespace

Result<Recipes> recipes_of(const Plan& plan) {
  Recipes out;
  ir::Graph g;
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    const ProgramRow& row = plan.programs[i];
    const std::string use = first_use(plan, static_cast<uint32_t>(i));
    ASSIGN_OR_RETURN(const ir::Node* ast, kernel_ast(g, row, use));
    auto opts = ir::parse_opts(row.applied_opts);
    if (!opts.ok()) return fail(std::move(opts).error().with(use));
    out.insert_or_assign(kernel_identity(g, ast, row.no_contract), std::move(*opts));
  }
  return out;
}

Result<RetuneReport> retune(Plan& plan,
                            const Recipes& recipes,
                            NoRecipe missing,
                            const CompileOptions& given) {
  ir::Graph g;
  ASSIGN_OR_RETURN(const std::vector<Change> changes, changes_of(g, plan, recipes, missing));
  RetuneReport report;
  if (changes.empty()) return report;
  ASSIGN_OR_RETURN(const CompileOptions options, plan_options(plan, given));
  ASSIGN_OR_RETURN(Backend backend, make_backend(options));
  std::vector<KernelRequest> requests;
  for (const Change& c : changes) requests.push_back(c.request);
  const auto cache =
      options.program_cache ? options.program_cache : make_program_cache(options.cache_dir);
  ASSIGN_OR_RETURN(std::vector<LoweredRow> rows,
                   lower_and_compile(requests, backend, *cache, options, report.stats));
  for (size_t i = 0; i < changes.size(); ++i) {
    ProgramRow& old = plan.programs[changes[i].program];
    ProgramRow& made = rows[i].row;
    if (made.buffer_args != old.buffer_args || made.scalar_args != old.scalar_args)
      return fail(Errc::kInternal, strf("%s: takes other arguments with opts %s",
                                        requests[i].used_by.c_str(), made.applied_opts.c_str()));
    old = std::move(made);
  }
  sort_programs(plan);
  report.changed = changes.size();
  return report;
}

}  // namespace modeld::exec
