// How long each kernel of a bundle takes by itself, for reports. Contract: median of several runs
// of many calls each, memory and code warm, so that what one submission costs does not show; a
// kernel that takes long runs less often. The device runs nothing else meanwhile. Threading: one
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "models/tools/kernel_check.h"

namespace modeld::tools {

// Nanoseconds per call, by program; 0 for a program that no call uses.
Result<std::vector<int64_t>> time_kernels(const bundle::Manifest& m,
                                          const KernelSide& side,
                                          uint64_t seed);

}  // namespace modeld::tools
