// Camera frames as plain data: streams, NV12 geometry, frame metadata. No transport here
// (frame_server.h, frame_client.h). Units: bytes, pixels, ns of CLOCK_MONOTONIC. Threading: plain
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "hal/base/status.h"

namespace modeld::ipc {

enum class StreamId : uint8_t { kRoad, kWide, kCabin };
inline constexpr int kStreamCount = 3;

const char* stream_name(StreamId stream);
std::optional<StreamId> parse_stream(std::string_view name);

inline constexpr uint32_t kMinFrameSide = 16;
inline constexpr uint32_t kMaxFrameSide = 8192;

// Layout of an NV12 buffer: luma rows of `stride` bytes, then at uv_offset interleaved U, V rows of
// `stride` bytes.
struct Nv12Geometry {
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t stride = 0;
  uint32_t y_height = 0;
  uint32_t uv_height = 0;
  uint32_t uv_offset = 0;
  uint32_t size = 0;  // whole buffer
  bool operator==(const Nv12Geometry&) const = default;

  // Bytes really used: what a reader may touch.
  uint32_t used_bytes() const { return uv_offset + stride * (height / 2); }
};

// The cameras' own layout: stride 128-, rows 32- and 16-aligned. Width and height must be even and
// within limits.
Result<Nv12Geometry> nv12_geometry(uint32_t width, uint32_t height);

// Pinhole camera, pixels.
struct CameraIntrinsics {
  double fx = 0;
  double fy = 0;
  double cx = 0;
  double cy = 0;
  bool operator==(const CameraIntrinsics&) const = default;
};

// The values of the known cameras (1928 and 1344 wide), others scaled by width / 1928; principal
// point in the middle.
CameraIntrinsics default_intrinsics(StreamId stream, uint32_t width, uint32_t height);

struct FrameMeta {
  StreamId stream = StreamId::kRoad;
  uint32_t slot = 0;
  uint64_t frame_id = 0;
  int64_t sof_ns = 0;
  int64_t eof_ns = 0;
  bool operator==(const FrameMeta&) const = default;
};

// What the handshake says of a stream.
struct StreamInfo {
  StreamId stream = StreamId::kRoad;
  Nv12Geometry geometry;
  CameraIntrinsics intrinsics;
  uint32_t slots = 0;
  uint32_t fps = 0;
  bool operator==(const StreamInfo&) const = default;
};

}  // namespace modeld::ipc
