// Compares every distinct kernel of a plan with its reference, each alone on its own seeded inputs.
// Contract: inputs are kernel_sample.h's; buffers that a kernel writes start with the same numbers
// on both sides. Threading: one thread.
#pragma once

#include <string>
#include <vector>

#include "hal/device.h"

#include "runtime/exec/loaded_plan.h"

#include "models/bundle/manifest.h"
#include "models/tools/tensor_io.h"

namespace modeld::tools {

struct KernelResult {
  std::string name;
  std::string used_by;  // "call 3 (r_12_4) of entry run"
  uint64_t calls = 0;
  Comparison worst;  // over the outputs
  double tolerance = 0;
};

struct KernelSide {
  const exec::Plan* plan = nullptr;
  exec::PlanSources sources;
  hal::Device* device = nullptr;
};

// `m` gives geometry and entries; both plans have m.plan's tables.
Result<std::vector<KernelResult>> check_kernels(const bundle::Manifest& m,
                                                const KernelSide& subject,
                                                const KernelSide& reference,
                                                uint64_t seed);

}  // namespace modeld::tools
