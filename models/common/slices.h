// Slices of a raw output vector, resolved by name at load.
// Contract: a Range that find_slice gave lies inside the vector and has one of the sizes asked for.
// Units: numbers. Threading: pure functions.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

#include "hal/base/status.h"

#include "models/bundle/manifest.h"

namespace modeld::models {

struct Range {
  size_t begin = 0;
  size_t size = 0;
  std::span<const float> of(std::span<const float> raw) const { return raw.subspan(begin, size); }
};

// kNotFound when there is no such slice, kInvalid when it is outside the vector or has none of the
// sizes.
Result<Range> find_slice(std::span<const bundle::SliceRow> slices,
                         std::string_view name,
                         std::initializer_list<size_t> sizes,
                         size_t raw_size);

}  // namespace modeld::models
