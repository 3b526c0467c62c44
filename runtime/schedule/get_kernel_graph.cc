#include "runtime/schedule/get_kernel_graph.h"

#include "runtime/ir/spec.h"
#include "runtime/schedule/limit_buffers.h"
#include "runtime/schedule/prepare_rangeify.h"
#include "runtime/schedule/remove_bufferize.h"
#include "runtime/schedule/run_rangeify.h"
#include "runtime/schedule/split_store.h"
#include "runtime/schedule/stage_to_buffer.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;

namespace {

// Between kernels only states and calls; inside each call a kernel ready for lowering.
Status verify_kernels(Graph& g, const Node* root) {
  RETURN_IF_ERROR(ir::verify_kernel_graph(g, root));
  for (const Node* n : ir::toposort(root)) {
    // Plain SINKs are graphs of their own (lower_sink_to_linear lowers them).
    if (n->op != ir::Op::kCall || !n->src(0)->has<ir::KernelInfo>()) continue;
    RETURN_IF_ERROR(ir::verify_kernel(g, n->src(0)));
  }
  return {};
}

}  // namespace

std::vector<pass::Pass> kernel_graph_passes(const ScheduleOptions& options) {
  const auto with = [&options](auto fn) {
    return [fn, options](Graph& g, const Node* n) { return fn(g, n, options); };
  };
  return {
      {"prepare_rangeify",
       "indexing speaks of flat storage and plain values only: no functions, no copies, no hazards",
       with(prepare_rangeify), ir::verify_tensor},
      {"run_rangeify",
       "needs every movement op still in place; decides what gets memory and makes loops",
       with(run_rangeify)},
      {"remove_bufferize",
       "run_rangeify stages without looking at costs; undo what does not pay before it is counted",
       with(remove_bufferize)},
      {"limit_buffers",
       "counts what one kernel really reads, so only after the last inlining; adds stages",
       with(limit_buffers)},
      {"stage_to_buffer", "the set of stages is final: give each its memory",
       with(stage_to_buffer)},
      {"split_store", "every store loop stands alone now: cut the graph into kernels",
       [](Graph& g, const Node* n) { return split_store(g, n); }, verify_kernels},
  };
}

Result<const Node*> get_kernel_graph(Graph& g, const Node* sink, const ScheduleOptions& options) {
  const std::vector<pass::Pass> passes = kernel_graph_passes(options);
  pass::RunOptions run;
  run.label = "schedule";
  return pass::run_passes(g, sink, passes, run);
}

}  // namespace modeld::schedule
