#include "runtime/codegen/to_program.h"

#include <iterator>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/linearize.h"
#include "runtime/codegen/lower.h"
#include "runtime/codegen/program_info.h"
#include "runtime/ir/spec.h"

namespace modeld::codegen {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

// Letters, digits and '_' only: colours and odd names never reach the source.
std::string sanitised(const std::string& name) {
  std::string out;
  for (char c : name) {
    const bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    out += ok ? c : '_';
  }
  return out.empty() || (out[0] >= '0' && out[0] <= '9') ? "k" + out : out;
}

std::string function_name(const Node* sink, const Hash128& key) {
  const std::string base = sink->has<ir::KernelInfo>() ? sink->as<ir::KernelInfo>().name : "";
  return sanitised(base.empty() ? "kernel" : base) + "_" + key.hex().substr(0, 12);
}

Result<const Node*> lowered_program(Graph& g,
                                    const Node* ast,
                                    const CodegenOptions& options,
                                    const Hash128& key) {
  if (!ast->has<ir::KernelInfo>()) {
    return fail(Errc::kInvalid, "to_program: SINK without KernelInfo is not a kernel");
  }
  ASSIGN_OR_RETURN(const Node* sink,
                   full_rewrite_to_sink(g, ast, options, ast->tag == 0, function_name(ast, key)));
  const ir::ProgramInfo info = program_info(g, sink, function_name(sink, key));
  RETURN_IF_ERROR(g.status());
  if (options.select) {
    auto selected = options.select(g, sink);
    if (!selected.ok()) return fail(std::move(selected).error().with(info.name));
    sink = *selected;
  }
  return g.make(Op::kProgram, ir::DType::kVoid, {sink}, info);
}

// A PROGRAM may come without its information (nobody has scanned its sink yet), and with any of its
// later stages.
Result<const Node*> checked_program(Graph& g, const Node* program, const Hash128& key) {
  constexpr Op kStages[] = {Op::kSink, Op::kLinear, Op::kSource, Op::kBinary};
  bool is_program = program->nsrc >= 1 && program->nsrc <= std::size(kStages);
  for (size_t i = 0; is_program && i < program->nsrc; ++i)
    is_program = program->src(i)->op == kStages[i];
  if (!is_program)
    return fail(Errc::kInvalid, "to_program: a PROGRAM's sources are SINK, LINEAR, SOURCE, BINARY");
  if (program->has<ir::ProgramInfo>()) return program;
  const Node* sink = program->src(0);
  RETURN_IF_ERROR(ir::verify_program(g, sink));
  const ir::ProgramInfo info = program_info(g, sink, function_name(sink, key));
  RETURN_IF_ERROR(g.status());
  return g.with_arg(program, info);
}

}  // namespace

Hash128 to_program_key(const Node* ast, const CodegenOptions& options) {
  const std::string text = options_text(options) + strf(" optimize=%d", ast->tag == 0);
  return combine(ast->key, xxh128(text));
}

Result<const Node*> do_linearize(Graph& g, const Node* program) {
  if (program->nsrc != 1) return program;
  const NodeVec order = linearize(g, program->src(0));
  RETURN_IF_ERROR(g.status());
  const Node* linear = g.make(Op::kLinear, ir::DType::kVoid, order);
  return g.with_src(program, {program->src(0), linear});
}

Result<const Node*> do_render(Graph& g, const Node* program, const CodegenOptions& options) {
  if (program->nsrc != 2) return program;
  if (!options.render) return fail(Errc::kInvalid, "to_program: no renderer given");
  const Node* linear = program->src(1);
  ASSIGN_OR_RETURN(std::string source,
                   options.render(g, linear->src(), program->as<ir::ProgramInfo>().name));
  const Node* text = g.make(Op::kSource, ir::DType::kVoid, NodeVec{}, std::move(source));
  return g.with_src(program, {program->src(0), linear, text});
}

Result<const Node*> do_assemble(Graph& g, const Node* program, const CodegenOptions& options) {
  if (program->nsrc != 2) return program;
  const Node* linear = program->src(1);
  ASSIGN_OR_RETURN(Assembly made,
                   options.assemble(g, linear->src(), program->as<ir::ProgramInfo>().name));
  std::string bytes(reinterpret_cast<const char*>(made.code.data()), made.code.size());
  const Node* text = g.make(Op::kSource, ir::DType::kVoid, NodeVec{}, std::move(made.listing));
  const Node* code = g.make(Op::kBinary, ir::DType::kVoid, NodeVec{}, std::move(bytes));
  return g.with_src(program, {program->src(0), linear, text, code});
}

Result<Program> to_program(Graph& outer, const Node* ast, const CodegenOptions& options) {
  if (ast->op != Op::kSink && ast->op != Op::kProgram) {
    return fail(Errc::kInvalid,
                strf("to_program: %s is neither SINK nor PROGRAM", ir::op_name(ast->op)));
  }
  RETURN_IF_ERROR(outer.status());
  Program out;
  out.key = to_program_key(ast, options);
  // A Graph of its own: fresh ids, and so the text, do not depend on what else was made.
  Graph g;
  const Node* at = g.import(ast);
  if (at->op == Op::kSink) {
    ASSIGN_OR_RETURN(at, lowered_program(g, at, options, out.key));
  } else {
    ASSIGN_OR_RETURN(at, checked_program(g, at, out.key));
  }
  ASSIGN_OR_RETURN(at, do_linearize(g, at));
  ASSIGN_OR_RETURN(at, options.assemble ? do_assemble(g, at, options) : do_render(g, at, options));
  out.info = at->as<ir::ProgramInfo>();
  out.name = out.info.name;
  out.source = at->src(2)->as<std::string>();
  if (at->nsrc == 4) {
    const std::string& bytes = at->src(3)->as<std::string>();
    const auto* const first = reinterpret_cast<const std::byte*>(bytes.data());
    out.code.assign(first, first + bytes.size());
  }
  if (at->src(0)->has<ir::KernelInfo>()) {
    out.applied_opts = at->src(0)->as<ir::KernelInfo>().applied_opts;
  }
  out.instructions = at->src(1)->nsrc;
  out.no_contract = options.no_contract;
  return out;
}

}  // namespace modeld::codegen
