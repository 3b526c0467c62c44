#include "selftest/fuzz/kernel_lower.h"

#include <cstring>

#include "runtime/codegen/lower.h"
#include "runtime/codegen/program_info.h"

namespace modeld::fuzz {

namespace {

using codegen::CodegenOptions;
using ir::Node;

Result<const Node*> damaged_sink(ir::Graph& g,
                                 const Node* ast,
                                 const CodegenOptions& options,
                                 const KernelDefect& defect) {
  ASSIGN_OR_RETURN(const Node* at, codegen::run_kernel_passes(g, ast, options, true, defect.after));
  at = defect.damage(g, at);
  bool is_past = false;
  for (const codegen::KernelPass& p : codegen::kernel_passes()) {
    if (is_past) at = p.fn(g, at, options);
    RETURN_IF_ERROR(g.status());
    is_past = is_past || std::strcmp(p.name, defect.after) == 0;
  }
  return at;
}

}  // namespace

Result<codegen::Program> lower_kernel(ir::Graph& outer,
                                      const Node* ast,
                                      const CodegenOptions& options,
                                      const KernelDefect* defect) {
  if (defect == nullptr) return codegen::to_program(outer, ast, options);
  ir::Graph g;
  ASSIGN_OR_RETURN(const Node* sink, damaged_sink(g, g.import(ast), options, *defect));
  const std::string name = "damaged_" + codegen::to_program_key(ast, options).hex().substr(0, 12);
  const ir::ProgramInfo info = codegen::program_info(g, sink, name);
  if (options.select) {
    ASSIGN_OR_RETURN(sink, options.select(g, sink));
  }
  RETURN_IF_ERROR(g.status());
  return codegen::to_program(g, g.make(ir::Op::kProgram, ir::DType::kVoid, {sink}, info), options);
}

}  // namespace modeld::fuzz
