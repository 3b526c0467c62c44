// sweep_plan: places one lane's buffers inside an arena of a given size, by a sweep over the calls.
// Best fit decides once per buffer and cannot take back that a small buffer split the space two
// large ones need later; the sweep keeps many placements of the buffers alive now and lets the
// calls that follow choose. Contract: what it finds is sound and fits `limit`; finding nothing
// proves nothing. Work is bounded by counts, never by a clock: same input, same answer on every
// host. Units: bytes. Threading: pure function.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "runtime/schedule/planner.h"

namespace modeld::schedule {

// Offsets, parallel to `lane` (lifetimes of one lane, none of size 0). `width`: placements kept
// from one buffer to the next.
std::optional<std::vector<Bytes>> sweep_plan(std::span<const Lifetime> lane,
                                             Bytes limit,
                                             size_t width);

}  // namespace modeld::schedule
