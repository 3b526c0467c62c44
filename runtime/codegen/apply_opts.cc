// apply_opts. Needs clean ranges. Gives: WEAK/REDUCE axes with their hardware types, and a SINK
// whose KernelInfo holds the name and the full recipe. Precedence: an already optimised AST stays;
// explicit opts_to_apply (an empty list means none); then a search, where KernelInfo asks for one;
// then the heuristic, unless NOOPT.
#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/heuristics.h"
#include "runtime/codegen/passes.h"
#include "runtime/codegen/scheduler.h"

namespace modeld::codegen {
namespace {

bool has_stage(const Node* root) {
  for (const Node* n : ir::toposort(root)) {
    if (n->op == ir::Op::kStage) return true;
  }
  return false;
}

// False after a failure, which the Graph keeps.
bool apply_list(Graph& g, Scheduler& s, const ir::Opts& opts) {
  for (const ir::Opt& opt : opts) {
    const Status ok = s.apply_opt(opt);
    if (ok.ok()) continue;
    g.fail(ok.error().code, ok.error().what);
    return false;
  }
  return true;
}

bool apply_searched(Graph& g, Scheduler& s, const CodegenOptions& o, int64_t width) {
  if (!o.search) {
    g.fail(Errc::kInvalid, "a kernel asks for a search of its opts, and nothing here can run one");
    return false;
  }
  const Result<ir::Opts> found = o.search(s, width);
  if (found.ok()) return apply_list(g, s, *found);
  g.fail(found.error().code, found.error().what);
  return false;
}

}  // namespace

const Node* apply_opts(Graph& g, const Node* root, const CodegenOptions& o) {
  if (root->tag != 0) return root;
  ir::KernelInfo info;
  if (root->has<ir::KernelInfo>()) info = root->as<ir::KernelInfo>();
  Scheduler s(g, root, o);
  s.convert_weak_to_global();
  if (info.opts_to_apply) {
    if (!apply_list(g, s, *info.opts_to_apply)) return root;
  } else if (info.beam >= 1) {
    if (!apply_searched(g, s, o, info.beam)) return root;
  } else if (!o.noopt && info.applied_opts.empty() && !has_stage(root)) {
    s = o.heuristic == Heuristic::kCpu ? cpu_heuristic(s) : hand_coded_optimizations(s);
  }
  return s.optimised_ast(info.name.empty() ? s.auto_name() : info.name);
}

}  // namespace modeld::codegen
