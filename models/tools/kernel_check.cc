#include "models/tools/kernel_check.h"

#include "models/tools/kernel_sample.h"
#include "models/tools/session.h"

namespace modeld::tools {
namespace {

// Runs one kernel and returns the bytes of the arguments in `outs`.
Result<std::vector<Bytes>> run_kernel(exec::LoadedPlan& loaded,
                                      size_t index,
                                      const KernelSample& sample,
                                      std::span<const uint32_t> outs) {
  hal::Device& device = loaded.device();
  ASSIGN_OR_RETURN(const exec::EntryId id, loaded.entry(kernel_entry(index)));
  ASSIGN_OR_RETURN(const BoundSample bound, bind_sample(device, sample));
  RETURN_IF_ERROR(loaded.run(id, bound.slots, Deadline::in_ms(kRunLimitMs)));
  std::vector<Bytes> result;
  for (const uint32_t out : outs) {
    Bytes bytes(sample.buffers[out].bytes);
    RETURN_IF_ERROR(device.download(bytes, bound.buffers[out], 0, Deadline::in_ms(kRunLimitMs)));
    result.push_back(std::move(bytes));
  }
  return result;
}

}  // namespace

Result<std::vector<KernelResult>> check_kernels(const bundle::Manifest& m,
                                                const KernelSide& subject,
                                                const KernelSide& reference,
                                                uint64_t seed) {
  ASSIGN_OR_RETURN(const auto samples, sample_kernels(m, *subject.plan, seed));
  const exec::Plan plans[] = {kernel_plan(*subject.plan, samples),
                              kernel_plan(*reference.plan, samples)};
  ASSIGN_OR_RETURN(const auto a,
                   exec::LoadedPlan::load(plans[0], *subject.device, subject.sources));
  ASSIGN_OR_RETURN(const auto b,
                   exec::LoadedPlan::load(plans[1], *reference.device, reference.sources));
  std::vector<KernelResult> out;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!samples[i]) continue;
    const exec::ProgramRow& program = subject.plan->programs[i];
    ASSIGN_OR_RETURN(const auto got, run_kernel(*a, i, *samples[i], program.outs));
    ASSIGN_OR_RETURN(const auto want, run_kernel(*b, i, *samples[i], program.outs));
    KernelResult r{program.name, samples[i]->used_by, samples[i]->calls, {}, tolerance_of(program)};
    for (size_t k = 0; k < got.size(); ++k) {
      const ir::DType type = samples[i]->buffers[program.outs[k]].dtype;
      const Comparison c = compare(got[k], want[k], type, r.tolerance);
      const bool is_worse = r.worst.is_equal_enough &&
                            (!c.is_equal_enough || c.max_abs_error >= r.worst.max_abs_error);
      if (is_worse) r.worst = c;
    }
    out.push_back(std::move(r));
  }
  return out;
}

}  // namespace modeld::tools
