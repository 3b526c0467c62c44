// image_shape: whether a flat buffer can be a 2D image of 4-element pixels, and of which shape.
// Source of the rule: Adreno texture descriptors (pitch in steps of 64 pixels, 14-bit sizes); no
// padding is ever inserted, so rows must tile the buffer exactly. Threading: pure.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/ir/dtype.h"

namespace modeld::codegen {

struct ImageShape {
  int64_t height;
  int64_t width;  // pixels
  bool operator==(const ImageShape&) const = default;
};

// `elements` of type t: a 1-row image where one row holds all (its bytes a multiple of 64), else
// the widest rows of a multiple of 64 pixels that divide them. f32 and f16 only.
std::optional<ImageShape> image_shape(int64_t elements, ir::DType t);

}  // namespace modeld::codegen
