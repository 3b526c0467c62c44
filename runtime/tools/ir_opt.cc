#include "runtime/tools/ir_opt.h"

#include <algorithm>
#include <utility>

#include "runtime/codegen/lower.h"
#include "runtime/codegen/to_program.h"
#include "runtime/exec/lower_and_compile.h"
#include "runtime/ir/print.h"
#include "runtime/ir/spec.h"
#include "runtime/ir/symbolic.h"
#include "runtime/schedule/get_kernel_graph.h"
#include "runtime/schedule/schedule.h"

namespace modeld::tools {

namespace {

Result<codegen::CodegenOptions> codegen_options(const IrOptOptions& options) {
  exec::CompileOptions compile;
  compile.target = options.target;
  compile.noopt = options.noopt;
  return exec::make_codegen_options(compile);
}

Result<const ir::Node*> run_pass(ir::Graph& g,
                                 const ir::Node* root,
                                 const std::string& name,
                                 const codegen::CodegenOptions& options) {
  for (const codegen::KernelPass& p : codegen::kernel_passes())
    if (name == p.name) return p.fn(g, root, options);
  for (const pass::Pass& p : schedule::kernel_graph_passes({}))
    if (name == p.name) return p.fn(g, root);
  if (name == "simplify") return ir::simplify(g, root);
  if (name == "make_schedule") {
    ASSIGN_OR_RETURN(const schedule::Schedule s, schedule::make_schedule(g, root->src()));
    return s.linear;
  }
  return fail(Errc::kInvalid, "no such pass (--list names them)");
}

}  // namespace

std::vector<PassName> ir_opt_passes(const IrOptOptions&) {
  std::vector<PassName> out;
  out.push_back({"simplify", "stage", "symbolic simplification of any graph"});
  out.push_back({"make_schedule", "stage", "SINK of wanted values to LINEAR of kernel calls"});
  for (const pass::Pass& p : schedule::kernel_graph_passes({}))
    out.push_back({p.name, "kernel graph", p.why});
  for (const codegen::KernelPass& p : codegen::kernel_passes())
    out.push_back({p.name, "kernel", p.why});
  out.push_back({"to_program", "stage", "kernel AST to rendered source; last"});
  return out;
}

Result<std::string> ir_opt(std::string_view text,
                           std::span<const std::string> passes,
                           const IrOptOptions& options) {
  ASSIGN_OR_RETURN(const codegen::CodegenOptions codegen, codegen_options(options));
  ir::Graph g;
  ASSIGN_OR_RETURN(const ir::Node* root, ir::parse(g, text));
  if (options.verify_kernel) RETURN_IF_ERROR(ir::verify_kernel(g, root));
  for (size_t i = 0; i < passes.size(); ++i) {
    if (passes[i] == "to_program") {
      if (i + 1 != passes.size()) return fail(Errc::kInvalid, "to_program must be the last pass");
      ASSIGN_OR_RETURN(codegen::Program program, codegen::to_program(g, root, codegen));
      return std::move(program.source);
    }
    auto next = run_pass(g, root, passes[i], codegen);
    if (next.ok()) {
      if (Status s = g.status(); !s.ok()) next = fail(std::move(s).error());
    }
    if (!next.ok()) return fail(std::move(next).error().with("pass " + passes[i]));
    root = *next;
  }
  return ir::print(root);
}

}  // namespace modeld::tools
