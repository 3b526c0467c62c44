// The smallest arena for a few buffers with given lifetimes, by exhaustive search: the truth that
// the planners of runtime/schedule are held against. Not for whole models: the time grows with the
// factorial of the buffers; prove_optimal cuts a lane down to the calls that matter. Contract: an
// answer that is_proven is exact. Units: bytes. Threading: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/schedule/planner.h"

namespace modeld::testing {

struct ExactArena {
  schedule::Bytes arena = 0;  // smallest found below or at `most`; 0 when there is none
  bool is_proven = false;     // the search ended before max_steps
};

// `lane`: lifetimes of one lane. Only arenas up to `most` are looked for.
ExactArena exact_arena(std::span<const schedule::Lifetime> lane,
                       schedule::Bytes most,
                       uint64_t max_steps);

// A run of calls whose live buffers alone need `arena` bytes, so that no plan of the lane is
// smaller: the shortest one, searched by length. Nothing when max_steps per run prove none.
struct Core {
  int64_t first_call = 0, calls = 0;
  size_t buffers = 0;
};
std::optional<Core> prove_optimal(std::span<const schedule::Lifetime> lane,
                                  schedule::Bytes arena,
                                  uint64_t max_steps);

}  // namespace modeld::testing
