// limit_dims: sizes of a launch grid that the hardware accepts (pipeline hand-book 7.3). It knows
// sizes only; add_gpudims.cc turns the result into index math. Threading: pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hal/base/status.h"

namespace modeld::codegen {

// Merges neighbours while there are too many dimensions or one is too large; if nothing could be
// merged, splits large ones. The product stays. kInvalid when no way is found. With three
// dimensions a split may wrap around and leave an earlier dimension above its limit (the pinned
// table has such a row): the caller checks.
Result<std::vector<int64_t>> limit_dims(std::vector<int64_t> dims, std::span<const int64_t> max);

}  // namespace modeld::codegen
