#include "runtime/codegen/image_shape.h"

namespace modeld::codegen {

namespace {

constexpr int64_t kMaxSide = 16384;   // pixels
constexpr int64_t kPitchPixels = 64;  // of images with more than one row
constexpr int64_t kRowBytes = 64;     // a single row has no pitch, but its bytes are counted so

}  // namespace

std::optional<ImageShape> image_shape(int64_t elements, ir::DType t) {
  if (t != ir::DType::kF32 && t != ir::DType::kF16) return std::nullopt;
  if (elements <= 0 || elements % 4 != 0) return std::nullopt;
  const int64_t pixels = elements / 4;
  if (pixels <= kMaxSide && elements * ir::item_size(t) % kRowBytes == 0) {
    return ImageShape{1, pixels};
  }
  for (int64_t width = kMaxSide; width >= kPitchPixels; width -= kPitchPixels) {
    if (pixels % width == 0 && pixels / width <= kMaxSide) return ImageShape{pixels / width, width};
  }
  return std::nullopt;
}

}  // namespace modeld::codegen
