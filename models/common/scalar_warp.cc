#include "models/common/scalar_warp.h"

namespace modeld::models {

namespace {

// Into [0, size - 1]; a NaN becomes 0.
int32_t clamped(float t, float last) {
  t = t > 0.0f ? t : 0.0f;
  t = t < last ? t : last;
  return static_cast<int32_t>(t);
}

bool is_within(float t, int32_t size) {
  return t >= 0.0f && t < static_cast<float>(size);
}

Status check(const Nv12View& camera,
             uint32_t model_width,
             uint32_t model_height,
             uint64_t out_bytes,
             uint64_t wanted) {
  ASSIGN_OR_RETURN(const uint64_t used,
                   nv12_used_bytes(camera.width, camera.height, camera.stride, camera.uv_offset));
  if (camera.bytes.size() < used) {
    return fail(Errc::kInvalid,
                strf("warp: picture needs %zu bytes, has %zu", size_t{used}, camera.bytes.size()));
  }
  if (model_width == 0 || model_height == 0 || model_width % 2 != 0 || model_height % 2 != 0 ||
      out_bytes != wanted) {
    return fail(Errc::kInvalid, strf("warp: model picture %ux%u, output of %zu bytes", model_width,
                                     model_height, size_t{out_bytes}));
  }
  return {};
}

}  // namespace

Result<uint64_t> nv12_used_bytes(uint32_t width,
                                 uint32_t height,
                                 uint32_t stride,
                                 uint32_t uv_offset) {
  const uint64_t luma = uint64_t{stride} * height;
  if (width == 0 || height == 0 || width % 2 != 0 || height % 2 != 0 || stride < width ||
      uv_offset < luma) {
    return fail(Errc::kInvalid,
                strf("NV12 picture: %ux%u, stride %u, chroma at %u do not fit together", width,
                     height, stride, uv_offset));
  }
  return uv_offset + uint64_t{stride} * (height / 2);
}

WarpedPixel warp_pixel(const Matrix3f& m, int32_t x, int32_t y, int32_t width, int32_t height) {
  const auto fx = static_cast<float>(x);
  const auto fy = static_cast<float>(y);
  const float px = (m[0] * fx + m[1] * fy) + m[2];
  const float py = (m[3] * fx + m[4] * fy) + m[5];
  const float pw = (m[6] * fx + m[7] * fy) + m[8];
  const float tx = px / pw + 0.5f;
  const float ty = py / pw + 0.5f;
  return {clamped(tx, static_cast<float>(width - 1)), clamped(ty, static_cast<float>(height - 1)),
          is_within(tx, width) && is_within(ty, height)};
}

Status scalar_road_warp(const Nv12View& camera,
                        const Matrix3f& m,
                        uint32_t model_width,
                        uint32_t model_height,
                        std::span<uint8_t> out) {
  const uint64_t wanted = uint64_t{model_width} * model_height / 4 * 6;
  RETURN_IF_ERROR(check(camera, model_width, model_height, out.size(), wanted));
  const Matrix3f chroma = chroma_matrix(m);
  const auto rows = static_cast<int32_t>(model_height / 2);
  const auto columns = static_cast<int32_t>(model_width / 2);
  const auto width = static_cast<int32_t>(camera.width);
  const auto height = static_cast<int32_t>(camera.height);
  size_t at = 0;
  for (int32_t channel = 0; channel < 4; ++channel) {
    for (int32_t i = 0; i < rows; ++i) {
      for (int32_t j = 0; j < columns; ++j) {
        const WarpedPixel p =
            warp_pixel(m, 2 * j + channel / 2, 2 * i + channel % 2, width, height);
        out[at++] =
            camera
                .bytes[static_cast<size_t>(p.row) * camera.stride + static_cast<size_t>(p.column)];
      }
    }
  }
  for (size_t channel = 0; channel < 2; ++channel) {
    for (int32_t i = 0; i < rows; ++i) {
      for (int32_t j = 0; j < columns; ++j) {
        const WarpedPixel p = warp_pixel(chroma, j, i, width / 2, height / 2);
        out[at++] = camera.bytes[camera.uv_offset + static_cast<size_t>(p.row) * camera.stride +
                                 2 * static_cast<size_t>(p.column) + channel];
      }
    }
  }
  return {};
}

Status scalar_cabin_warp(const Nv12View& camera,
                         const Matrix3f& m,
                         uint32_t model_width,
                         uint32_t model_height,
                         std::span<uint8_t> out) {
  RETURN_IF_ERROR(
      check(camera, model_width, model_height, out.size(), uint64_t{model_width} * model_height));
  size_t at = 0;
  for (int32_t y = 0; y < static_cast<int32_t>(model_height); ++y) {
    for (int32_t x = 0; x < static_cast<int32_t>(model_width); ++x) {
      const WarpedPixel p = warp_pixel(m, x, y, static_cast<int32_t>(camera.width),
                                       static_cast<int32_t>(camera.height));
      const size_t position =
          static_cast<size_t>(p.row) * camera.stride + static_cast<size_t>(p.column);
      out[at++] = p.inside ? camera.bytes[position] : kOutsideLuma;
    }
  }
  return {};
}

}  // namespace modeld::models
