// The warp as plain scalar C++: the truth the compiled warp entry points are compared with, bit for
// bit. Contract: all arithmetic is IEEE float32, one rounding per operation, no contraction (this
// file is compiled so), and in this order, for the output pixel (x, y) of a plane of w x h camera
// pixels:
//   X = (m0*x + m1*y) + m2    Y = (m3*x + m4*y) + m5    W = (m6*x + m7*y) + m8
//   tx = X / W + 0.5          ty = Y / W + 0.5
//   tx = tx > 0 ? tx : 0      tx = tx < w-1 ? tx : w-1    column = int(tx)
//   (the same for ty, h and the row)
// A NaN fails tx > 0 and becomes 0; the value is in range before it becomes an integer. This is
// "divide, round to nearest (halves up), clamp to the border".
// Units: pixels, bytes. Threading: pure functions, no allocation.
#pragma once

#include <cstdint>
#include <span>

#include "hal/base/status.h"

#include "models/common/warp_matrix.h"

namespace modeld::models {

// An NV12 picture: luma rows of `stride` bytes from 0 on, interleaved U, V rows of `stride` bytes
// from uv_offset on.
struct Nv12View {
  std::span<const uint8_t> bytes;
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t stride = 0;
  uint32_t uv_offset = 0;
};

// Bytes a reader may touch. kInvalid unless width and height are even and positive, stride >=
// width, and the chroma plane starts behind the luma plane.
Result<uint64_t> nv12_used_bytes(uint32_t width,
                                 uint32_t height,
                                 uint32_t stride,
                                 uint32_t uv_offset);

// Where a pixel lies after the map above; `inside` says whether it needed no clamping (0 <= t <
// size on both axes).
struct WarpedPixel {
  int32_t column = 0;
  int32_t row = 0;
  bool inside = false;
};
WarpedPixel warp_pixel(const Matrix3f& m, int32_t x, int32_t y, int32_t width, int32_t height);

// Road and wide: the six channels (6, model_height/2, model_width/2) of a model_width x
// model_height picture: luma of even rows/even columns, odd/even, even/odd, odd/odd, then U and V,
// which are looked up with chroma_matrix(m).
Status scalar_road_warp(const Nv12View& camera,
                        const Matrix3f& m,
                        uint32_t model_width,
                        uint32_t model_height,
                        std::span<uint8_t> out);

// Cabin: luma only, kOutsideLuma where the pixel lies outside the camera's picture.
constexpr uint8_t kOutsideLuma = 16;
Status scalar_cabin_warp(const Nv12View& camera,
                         const Matrix3f& m,
                         uint32_t model_width,
                         uint32_t model_height,
                         std::span<uint8_t> out);

}  // namespace modeld::models
