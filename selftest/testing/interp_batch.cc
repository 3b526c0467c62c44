// KernelBatch without a renderer: lowered programs run in program_interp.
#include "runtime/codegen/linearize.h"
#include "runtime/codegen/lower.h"
#include "runtime/codegen/program_info.h"

#include "selftest/testing/compiled_kernel.h"
#include "selftest/testing/program_interp.h"

namespace modeld::testing {

namespace {

struct Lowered {
  std::unique_ptr<ir::Graph> graph;
  ir::NodeVec linear;
};

using Kernels = std::vector<Lowered>;

}  // namespace

KernelBatch::~KernelBatch() = default;

Result<size_t> KernelBatch::add(ir::Graph& g,
                                const ir::Node* ast,
                                const codegen::CodegenOptions& options) {
  RETURN_IF_ERROR(g.status());
  if (extra_ == nullptr) extra_ = std::make_shared<Kernels>();
  Lowered k{std::make_unique<ir::Graph>(), {}};
  const ir::Node* own = k.graph->import(ast);
  ASSIGN_OR_RETURN(const ir::Node* sink,
                   codegen::full_rewrite_to_sink(*k.graph, own, options, own->tag == 0));
  codegen::Program p;
  p.name = sink->as<ir::KernelInfo>().name;
  p.info = codegen::program_info(*k.graph, sink, p.name);
  p.applied_opts = sink->as<ir::KernelInfo>().applied_opts;
  k.linear = codegen::linearize(*k.graph, sink);
  RETURN_IF_ERROR(k.graph->status());
  programs_.push_back(std::move(p));
  static_cast<Kernels*>(extra_.get())->push_back(std::move(k));
  return programs_.size() - 1;
}

Status KernelBatch::build(const std::string&) {
  return {};
}

Status KernelBatch::run(size_t kernel,
                        std::span<KernelStorage* const> args,
                        std::span<const int64_t> vars,
                        size_t) const {
  const Lowered& k = (*static_cast<const Kernels*>(extra_.get()))[kernel];
  Status ran = run_program(*k.graph, k.linear, programs_[kernel].info, args, vars);
  if (!ran.ok()) return fail(Error(ran.error()).with(programs_[kernel].name));
  return {};
}

}  // namespace modeld::testing
