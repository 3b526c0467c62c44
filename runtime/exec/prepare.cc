#include "runtime/exec/prepare.h"

#include <utility>

#include "runtime/exec/kernel_ast.h"
#include "runtime/exec/lower_and_compile.h"

namespace modeld::exec {

std::string first_use(const Plan& plan, uint32_t program) {
  for (const Entry& e : plan.entries)
    for (size_t i = 0; i < e.calls.size(); ++i)
      if (e.calls[i].kind == CallRow::Kind::kProgram && e.calls[i].program == program)
        return call_text(plan, e, i);
  return "kernel " + plan.programs[program].name;
}

namespace {

Result<KernelRequest> request_of(ir::Graph& g, const Plan& plan, uint32_t program) {
  const ProgramRow& row = plan.programs[program];
  const std::string use = first_use(plan, program);
  ASSIGN_OR_RETURN(const ir::Node* ast, kernel_ast(g, row, use));
  return KernelRequest{ast, row.no_contract, use};
}

}  // namespace

Result<PreparePolicy> parse_prepare_policy(std::string_view text) {
  if (text == "missing") return PreparePolicy::kMissing;
  if (text == "never") return PreparePolicy::kNever;
  return fail(Errc::kInvalid, strf("prepare policy '%.*s' is neither missing nor never",
                                   static_cast<int>(text.size()), text.data()));
}

// The configuration is found by its text.
Result<CompileOptions> plan_options(const Plan& plan, const CompileOptions& given) {
  CompileOptions out = given;
  out.target = plan.target;
  for (const bool noopt : {false, true}) {
    out.noopt = noopt;
    ASSIGN_OR_RETURN(const codegen::CodegenOptions codegen, make_codegen_options(out));
    if (codegen::options_text(codegen) == plan.codegen_config) return out;
  }
  return fail(Errc::kMismatch,
              strf("this program cannot reproduce the code generation configuration '%s'",
                   plan.codegen_config.c_str()));
}

Result<PrepareReport> prepare(Plan& plan, PreparePolicy policy, const CompileOptions& given) {
  PrepareReport report;
  std::vector<uint32_t> missing;
  for (uint32_t i = 0; i < plan.programs.size(); ++i)
    if (plan.programs[i].image.is_missing()) missing.push_back(i);
  if (missing.empty()) return report;
  if (policy == PreparePolicy::kNever)
    return fail(Errc::kCompile, strf("%s has no binary, and the policy is to compile nothing",
                                     first_use(plan, missing[0]).c_str()));

  ASSIGN_OR_RETURN(const CompileOptions options, plan_options(plan, given));
  ASSIGN_OR_RETURN(Backend backend, make_backend(options));
  report.is_other_compiler = backend.compiler->identity() != plan.compiler;
  ir::Graph g;
  std::vector<KernelRequest> requests;
  for (const uint32_t i : missing) {
    ASSIGN_OR_RETURN(KernelRequest request, request_of(g, plan, i));
    const Hash128 key =
        codegen::to_program_key(request.ast, backend.options_for(request.no_contract));
    if (key != plan.programs[i].key)
      return fail(Errc::kCorrupt,
                  strf("%s: its AST has key %s, the plan says %s", request.used_by.c_str(),
                       key.hex().c_str(), plan.programs[i].key.hex().c_str()));
    requests.push_back(std::move(request));
  }
  const auto cache =
      options.program_cache ? options.program_cache : make_program_cache(options.cache_dir);
  ASSIGN_OR_RETURN(std::vector<LoweredRow> rows,
                   lower_and_compile(requests, backend, *cache, options, report.stats));
  for (size_t i = 0; i < missing.size(); ++i) {
    ProgramRow& row = plan.programs[missing[i]];
    const ProgramRow& made = rows[i].row;
    if (made.buffer_args != row.buffer_args || made.scalar_args != row.scalar_args ||
        made.groups[0] != row.groups[0])
      return fail(Errc::kMismatch, strf("%s: lowering gives another launch than the plan's",
                                        requests[i].used_by.c_str()));
    row.image = made.image;
  }
  report.prepared = missing.size();
  return report;
}

}  // namespace modeld::exec
