#include "runtime/exec/kernel_ast.h"

#include <utility>

#include "runtime/ir/print.h"
#include "runtime/ir/spec.h"

namespace modeld::exec {

using ir::Node;

Result<const Node*> kernel_ast(ir::Graph& g, const ProgramRow& row, const std::string& used_by) {
  auto ast = ir::parse(g, row.ast_text);
  if (!ast.ok()) return fail(std::move(ast).error().with(used_by));
  // What follows looks into the kernel's nodes; the text may have come from a file.
  if (Status s = ir::verify_kernel(g, *ast); !s.ok())
    return fail(std::move(s).error().with(used_by));
  if (!(*ast)->is(ir::Op::kSink) || !(*ast)->has<ir::KernelInfo>())
    return fail(Errc::kInvalid, used_by + ": its text is a graph, but no kernel");
  return *ast;
}

const Node* without_opts(ir::Graph& g, const Node* ast) {
  ir::KernelInfo info = ast->as<ir::KernelInfo>();
  info.opts_to_apply.reset();
  info.beam = 0;
  return g.with_arg(ast, info);
}

const Node* with_opts(ir::Graph& g, const Node* ast, ir::Opts opts) {
  ir::KernelInfo info = ast->as<ir::KernelInfo>();
  info.opts_to_apply = std::move(opts);
  info.beam = 0;
  return g.with_arg(ast, info);
}

bool has_explicit_opts(const Node* ast) {
  return ast->as<ir::KernelInfo>().opts_to_apply.has_value();
}

Hash128 kernel_identity(ir::Graph& g, const Node* ast, bool no_contract) {
  return combine(without_opts(g, ast)->key, xxh128(no_contract ? "no_contract" : "contract"));
}

}  // namespace modeld::exec
