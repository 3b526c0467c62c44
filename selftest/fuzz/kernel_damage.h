// Deliberate defects of kernel passes: each does to the graph between two passes what a fault in
// the first of them would have done. Contract: a graph without the place for it stays as it is.
// Threading: one thread, as the Graph.
#pragma once

#include <span>

#include "selftest/fuzz/kernel_lower.h"

namespace modeld::fuzz {

std::span<const KernelDefect> kernel_damages();

}  // namespace modeld::fuzz
