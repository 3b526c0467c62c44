// kernel-fuzz --self-proof: one deliberate defect at a time between two passes or in the legality
// of opts, each of which random kernels must find. Threading: one thread.
#pragma once

#include <cstdint>

namespace modeld::fuzz {

// 0 if every defect was found.
int prove_kernel_fuzz(uint64_t seed);

}  // namespace modeld::fuzz
