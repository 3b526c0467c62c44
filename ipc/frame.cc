#include "ipc/frame.h"

#include <algorithm>
#include <array>

#include "hal/base/bytes.h"

namespace modeld::ipc {
namespace {

constexpr std::array<const char*, kStreamCount> kStreamNames = {"road", "wide", "cabin"};

}  // namespace

const char* stream_name(StreamId stream) {
  const auto i = static_cast<size_t>(stream);
  return i < kStreamNames.size() ? kStreamNames[i] : "unknown";
}

std::optional<StreamId> parse_stream(std::string_view name) {
  for (size_t i = 0; i < kStreamNames.size(); ++i) {
    if (name == kStreamNames[i]) return static_cast<StreamId>(i);
  }
  return std::nullopt;
}

Result<Nv12Geometry> nv12_geometry(uint32_t width, uint32_t height) {
  if (width < kMinFrameSide || width > kMaxFrameSide || height < kMinFrameSide ||
      height > kMaxFrameSide || width % 2 != 0 || height % 2 != 0)
    return fail(Errc::kInvalid, strf("frame of %ux%u: sides must be even and from %u to %u", width,
                                     height, kMinFrameSide, kMaxFrameSide));
  const uint64_t stride = align_up(width, 128);
  const uint64_t y_height = align_up(height, 32);
  const uint64_t uv_height = align_up(height / 2, 16);
  // What the camera driver adds: meta data rows, then a row block per 512 columns.
  const uint64_t planes =
      stride * y_height + stride * uv_height + 4096 + std::max<uint64_t>(16384, 8 * stride);
  const uint64_t size = align_up(align_up(planes, 4096) + align_up(width, 512) * 512, 4096);
  Nv12Geometry g;
  g.width = width;
  g.height = height;
  g.stride = static_cast<uint32_t>(stride);
  g.y_height = static_cast<uint32_t>(y_height);
  g.uv_height = static_cast<uint32_t>(uv_height);
  g.uv_offset = static_cast<uint32_t>(stride * y_height);
  g.size = static_cast<uint32_t>(size);
  return g;
}

CameraIntrinsics default_intrinsics(StreamId stream, uint32_t width, uint32_t height) {
  const bool narrow = stream == StreamId::kRoad;
  double f = narrow ? 2648.0 : 567.0;
  if (width == 1344) {
    f = narrow ? 1141.5 : 425.25;
  } else if (width != 1928) {
    f = f * width / 1928.0;
  }
  return CameraIntrinsics{f, f, width / 2.0, height / 2.0};
}

}  // namespace modeld::ipc
