// Makes a trial that fails smaller: fewer values, smaller loops, fewer opts, no offsets and gates.
// Contract: the result still fails by `still_fails` and is sound; at most `limit` tries.
// Threading: pure but for still_fails.
#pragma once

#include <functional>

#include "selftest/fuzz/kernel_run.h"

namespace modeld::fuzz {

KernelTrial shrink(KernelTrial trial,
                   const std::function<bool(const KernelTrial&)>& still_fails,
                   int limit = 250);

}  // namespace modeld::fuzz
