#include "models/tools/reference_plan.h"

#include "runtime/codegen/scheduler.h"
#include "runtime/exec/kernel_ast.h"
#include "runtime/exec/lower_and_compile.h"

namespace modeld::tools {

namespace {

// Kernels below this many operations are not worth a second core.
constexpr uint64_t kThreadedFlops = 200'000;
constexpr int kThreads = 2;

// The AST with its first divisible output loop split over the cores: the only change to scalar code
// that leaves every sum in its order.
const ir::Node* split_over_cores(ir::Graph& g,
                                 const ir::Node* ast,
                                 const codegen::CodegenOptions& options) {
  codegen::Scheduler scheduler(g, ast, options);
  for (const size_t axis : scheduler.upcastable()) {
    if (scheduler.size(axis) % kThreads != 0) continue;
    const ir::Opt thread{ir::OptOp::kThread, static_cast<int64_t>(axis), kThreads};
    if (!scheduler.apply_opt(thread).ok()) continue;
    return exec::with_opts(g, ast, ir::Opts{thread});
  }
  return ast;
}

Result<exec::KernelRequest> request_of(ir::Graph& g,
                                       const exec::ProgramRow& p,
                                       const exec::Backend& backend) {
  const std::string what = "reference of kernel " + p.name;
  ASSIGN_OR_RETURN(const ir::Node* root, exec::kernel_ast(g, p, what));
  // Opts that the bundle asks for by name are part of what is to be checked.
  root = exec::without_opts(g, root);
  if (p.flops >= kThreadedFlops)
    root = split_over_cores(g, root, backend.options_for(p.no_contract));
  return exec::KernelRequest{root, p.no_contract, what};
}

}  // namespace

Result<exec::Plan> reference_plan(const exec::Plan& plan, const exec::CompileOptions& options) {
  exec::CompileOptions scalar = options;
  ASSIGN_OR_RETURN(scalar.target, hal::parse_target("cpu"));
  scalar.target.threads = kThreads;
  scalar.noopt = true;
  auto made = exec::make_backend(scalar);
  // Without the C compiler, bundles that needed none are still proved: the same graph, NOOPT and in
  // doubles, as scalar code of our own.
  if (!made.ok() && made.error().code == Errc::kNotFound && plan.target.renderer == "x86") {
    scalar.target.renderer = "x86";
    made = exec::make_backend(scalar);
  }
  ASSIGN_OR_RETURN(exec::Backend backend, std::move(made));
  backend.codegen.double_acc = true;  // not of no_contract kernels: their float32 roundings count
  ir::Graph graph;
  std::vector<exec::KernelRequest> requests;
  for (const exec::ProgramRow& p : plan.programs) {
    ASSIGN_OR_RETURN(exec::KernelRequest request, request_of(graph, p, backend));
    requests.push_back(std::move(request));
  }
  std::shared_ptr<exec::ProgramCache> cache = options.program_cache;
  if (cache == nullptr) cache = exec::make_program_cache(options.cache_dir);
  exec::Plan out = plan;
  out.target = scalar.target;
  out.stats = {};
  ASSIGN_OR_RETURN(auto rows,
                   exec::lower_and_compile(requests, backend, *cache, scalar, out.stats));
  for (size_t i = 0; i < rows.size(); ++i) {
    exec::ProgramRow& row = rows[i].row;
    exec::ProgramRow& old = out.programs[i];
    if (row.buffer_args != old.buffer_args || row.scalar_args != old.scalar_args)
      return fail(Errc::kInternal,
                  strf("reference of kernel %s takes other arguments", old.name.c_str()));
    row.ast_text = std::move(old.ast_text);
    old = std::move(row);
  }
  return out;
}

}  // namespace modeld::tools
