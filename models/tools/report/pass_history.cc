#include "models/tools/report/pass_history.h"

#include <unordered_map>

#include "hal/base/text.h"

#include "runtime/codegen/linearize.h"
#include "runtime/codegen/lower.h"
#include "runtime/ir/print.h"

namespace modeld::tools {
namespace {

class Recorder {
 public:
  explicit Recorder(PassHistory& out) : out_(out) {}

  void add(const char* name, const char* why, const ir::NodeVec& order) {
    PassView view;
    view.name = name;
    view.why = why;
    for (const ir::Node* n : order) view.lines.push_back(line_of(n));
    view.is_changed = out_.passes.empty() || view.lines != out_.passes.back().lines;
    out_.passes.push_back(std::move(view));
  }
  void add(const char* name, const char* why, const ir::Node* root) {
    add(name, why, ir::toposort(root));
  }

 private:
  // Nodes are immutable and live as long as their Graph, so a pointer is a name. Sources come first
  // in every order.
  uint32_t line_of(const ir::Node* n) {
    const auto [at, is_new] = number_.emplace(n, static_cast<uint32_t>(out_.text.size()));
    if (!is_new) return at->second;
    const uint32_t id = at->second;
    std::string line = strf("%%%u = %s %s", id, ir::op_name(n->op), ir::dtype_name(n->dtype));
    for (const ir::Node* s : n->src()) line += strf(" %%%u", number_.at(s));
    if (n->tag != 0) line += strf(" #%u", n->tag);
    const std::string arg = ir::arg_text(*n->arg);
    out_.text.push_back(arg.empty() ? line : line + " {" + arg + "}");
    return id;
  }

  PassHistory& out_;
  std::unordered_map<const ir::Node*, uint32_t> number_;
};

// The kernel with its opts written down, so that neither rule nor search chooses again.
Result<const ir::Node*> kernel_with_opts(ir::Graph& g, const exec::ProgramRow& program) {
  ASSIGN_OR_RETURN(const ir::Node* ast, ir::parse(g, program.ast_text));
  if (!ast->has<ir::KernelInfo>() || ast->tag != 0) return ast;
  ir::KernelInfo info = ast->as<ir::KernelInfo>();
  ASSIGN_OR_RETURN(info.opts_to_apply, ir::parse_opts(program.applied_opts));
  return g.with_arg(ast, info);
}

}  // namespace

Result<PassHistory> pass_history(const exec::ProgramRow& program,
                                 const codegen::CodegenOptions& options) {
  PassHistory out;
  Recorder recorder(out);
  ir::Graph g;
  ASSIGN_OR_RETURN(const ir::Node* ast, kernel_with_opts(g, program));
  recorder.add("kernel", "as scheduled, with the opts that were chosen for it", ast);
  pass::RunOptions run;
  run.label = program.name;
  run.observe = [&](const pass::Pass& p, const ir::Node* root) {
    recorder.add(p.name, p.why, root);
  };
  ASSIGN_OR_RETURN(const ir::Node* sink,
                   codegen::run_kernel_passes(g, ast, options, ast->tag == 0, nullptr, run));
  if (options.select) {
    ASSIGN_OR_RETURN(sink, options.select(g, sink));
    recorder.add("isel", "instructions of the target, by patterns", sink);
  }
  recorder.add("linearize", "the order in which the program runs them",
               codegen::linearize(g, sink));
  RETURN_IF_ERROR(g.status());
  return out;
}

std::string line_runs(const std::vector<uint32_t>& lines) {
  std::string out;
  for (size_t i = 0; i < lines.size();) {
    size_t end = i + 1;
    while (end < lines.size() && lines[end] == lines[end - 1] + 1) ++end;
    if (!out.empty()) out += ',';
    out += std::to_string(lines[i]);
    if (end - i > 1) out += '-' + std::to_string(lines[end - 1]);
    i = end;
  }
  return out;
}

Json history_json(const PassHistory& history) {
  Json text = Json::array(), passes = Json::array();
  for (const std::string& line : history.text) text.push(line);
  for (const PassView& v : history.passes) {
    Json p = Json::object();
    p.set("name", v.name);
    p.set("why", v.why);
    p.set("changed", v.is_changed);
    // A pass without work says so in one flag; its lines are those of the pass before.
    if (v.is_changed) p.set("lines", line_runs(v.lines));
    passes.push(std::move(p));
  }
  Json out = Json::object();
  out.set("text", std::move(text));
  out.set("passes", std::move(passes));
  return out;
}

}  // namespace modeld::tools
