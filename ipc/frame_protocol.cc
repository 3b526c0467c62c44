#include "ipc/frame_protocol.h"

#include <cmath>
#include <cstring>

#include "hal/base/bytes.h"
#include "hal/base/check.h"

namespace modeld::ipc {
namespace {

constexpr uint32_t kMagic = 0x4d41434d;  // "MCAM"
constexpr uint16_t kVersion = 1;
enum class PacketType : uint16_t { kHandshake = 1, kFrame = 2, kRelease = 3 };
constexpr uint64_t kMaxBufferBytes = uint64_t{256} << 20;

// Appends scalars to a fixed buffer; our own packets always fit.
class PacketWriter {
 public:
  explicit PacketWriter(PacketBuffer& out, PacketType type) : out_(out) {
    put(kMagic);
    put(kVersion);
    put(static_cast<uint16_t>(type));
  }
  template <Scalar T>
  void put(T value) {
    CHECK(size_ + sizeof(T) <= out_.size());
    std::memcpy(out_.data() + size_, &value, sizeof(T));
    size_ += sizeof(T);
  }
  void put_text(const std::string& text) {
    CHECK(size_ + text.size() <= out_.size());
    std::memcpy(out_.data() + size_, text.data(), text.size());
    size_ += text.size();
  }
  size_t size() const { return size_; }

 private:
  PacketBuffer& out_;
  size_t size_ = 0;
};

Status read_prefix(ByteReader& in, PacketType want) {
  ASSIGN_OR_RETURN(const uint32_t magic, in.read<uint32_t>());
  ASSIGN_OR_RETURN(const uint16_t version, in.read<uint16_t>());
  ASSIGN_OR_RETURN(const uint16_t type, in.read<uint16_t>());
  if (magic != kMagic)
    return fail(Errc::kProtocol, strf("camera packet: magic %08x, want %08x", magic, kMagic));
  if (version != kVersion)
    return fail(Errc::kMismatch, strf("camera packet: version %u, want %u", version, kVersion));
  if (type != static_cast<uint16_t>(want))
    return fail(Errc::kProtocol,
                strf("camera packet: type %u, want %u", type, static_cast<unsigned>(want)));
  return {};
}

Status expect_end(const ByteReader& in) {
  if (in.at_end()) return {};
  return fail(Errc::kProtocol, strf("camera packet: %zu bytes too many", in.left()));
}

Result<StreamId> read_stream(ByteReader& in) {
  ASSIGN_OR_RETURN(const uint32_t stream, in.read<uint32_t>());
  if (stream >= kStreamCount)
    return fail(Errc::kProtocol,
                strf("camera packet: stream %u, last is %d", stream, kStreamCount - 1));
  return static_cast<StreamId>(stream);
}

Result<uint32_t> read_slot(ByteReader& in) {
  ASSIGN_OR_RETURN(const uint32_t slot, in.read<uint32_t>());
  if (slot >= kMaxSlotsPerStream)
    return fail(Errc::kProtocol,
                strf("camera packet: slot %u, limit %u", slot, kMaxSlotsPerStream));
  return slot;
}

Status check_geometry(const char* name, const Nv12Geometry& g) {
  const bool sides_ok = g.width >= kMinFrameSide && g.width <= kMaxFrameSide &&
                        g.height >= kMinFrameSide && g.height <= kMaxFrameSide &&
                        g.width % 2 == 0 && g.height % 2 == 0;
  if (!sides_ok)
    return fail(Errc::kProtocol,
                strf("camera stream %s: %ux%u, sides must be even and from %u to %u", name, g.width,
                     g.height, kMinFrameSide, kMaxFrameSide));
  const uint64_t luma_end = uint64_t{g.stride} * g.y_height;
  const uint64_t chroma_end = uint64_t{g.uv_offset} + uint64_t{g.stride} * g.uv_height;
  const bool layout_ok = g.stride >= g.width && g.stride <= 2 * kMaxFrameSide &&
                         g.y_height >= g.height && g.y_height <= 2 * kMaxFrameSide &&
                         g.uv_height >= g.height / 2 && g.uv_height <= 2 * kMaxFrameSide &&
                         luma_end <= g.uv_offset && chroma_end <= g.size &&
                         g.size <= kMaxBufferBytes;
  if (!layout_ok)
    return fail(Errc::kProtocol, strf("camera stream %s: %ux%u with stride %u, rows %u and %u, uv "
                                      "offset %u does not fit %u bytes",
                                      name, g.width, g.height, g.stride, g.y_height, g.uv_height,
                                      g.uv_offset, g.size));
  return {};
}

Status check_stream(const StreamInfo& info) {
  const char* name = stream_name(info.stream);
  RETURN_IF_ERROR(check_geometry(name, info.geometry));
  if (info.slots == 0 || info.slots > kMaxSlotsPerStream)
    return fail(Errc::kProtocol, strf("camera stream %s: %u slots, want 1 to %u", name, info.slots,
                                      kMaxSlotsPerStream));
  if (info.fps == 0 || info.fps > 1000)
    return fail(Errc::kProtocol, strf("camera stream %s: %u frames a second", name, info.fps));
  const CameraIntrinsics& k = info.intrinsics;
  const bool finite =
      std::isfinite(k.fx) && std::isfinite(k.fy) && std::isfinite(k.cx) && std::isfinite(k.cy);
  if (!finite || k.fx <= 0 || k.fy <= 0 || k.fx > 1e6 || k.fy > 1e6 || std::abs(k.cx) > 1e6 ||
      std::abs(k.cy) > 1e6)
    return fail(Errc::kProtocol,
                strf("camera stream %s: intrinsics %g %g %g %g", name, k.fx, k.fy, k.cx, k.cy));
  return {};
}

Status read_uint32s(ByteReader& in, std::initializer_list<uint32_t*> fields) {
  for (uint32_t* field : fields) {
    ASSIGN_OR_RETURN(*field, in.read<uint32_t>());
  }
  return {};
}

Result<StreamInfo> read_stream_info(ByteReader& in) {
  StreamInfo info;
  ASSIGN_OR_RETURN(info.stream, read_stream(in));
  Nv12Geometry& g = info.geometry;
  RETURN_IF_ERROR(read_uint32s(in, {&g.width, &g.height, &g.stride, &g.y_height, &g.uv_height,
                                    &g.uv_offset, &g.size, &info.slots, &info.fps}));
  CameraIntrinsics& k = info.intrinsics;
  for (double* field : {&k.fx, &k.fy, &k.cx, &k.cy}) {
    ASSIGN_OR_RETURN(*field, in.read<double>());
  }
  RETURN_IF_ERROR(check_stream(info));
  return info;
}

void put_stream_info(PacketWriter& out, const StreamInfo& info) {
  const Nv12Geometry& g = info.geometry;
  out.put(static_cast<uint32_t>(info.stream));
  for (const uint32_t field : {g.width, g.height, g.stride, g.y_height, g.uv_height, g.uv_offset,
                               g.size, info.slots, info.fps})
    out.put(field);
  const CameraIntrinsics& k = info.intrinsics;
  for (const double field : {k.fx, k.fy, k.cx, k.cy}) out.put(field);
}

Status check_streams_distinct(const Handshake& handshake) {
  if (handshake.stream_count == 0 || handshake.stream_count > kStreamCount)
    return fail(Errc::kProtocol, strf("camera handshake: %u streams, want 1 to %d",
                                      handshake.stream_count, kStreamCount));
  uint32_t seen = 0;
  for (uint32_t i = 0; i < handshake.stream_count; ++i) {
    const uint32_t bit = 1u << static_cast<unsigned>(handshake.streams[i].stream);
    if ((seen & bit) != 0)
      return fail(Errc::kProtocol, strf("camera handshake: stream %s twice",
                                        stream_name(handshake.streams[i].stream)));
    seen |= bit;
  }
  return {};
}

// UTF-8 paths are part of source strings; what a terminal would act on is not.
Status check_source(const std::string& source) {
  if (source.size() > kMaxSourceText)
    return fail(Errc::kProtocol, strf("camera handshake: source string of %zu bytes, limit %zu",
                                      source.size(), kMaxSourceText));
  for (const char c : source) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      return fail(Errc::kProtocol, "camera handshake: source string has control characters");
  }
  return {};
}

}  // namespace

uint32_t Handshake::slot_total() const {
  uint32_t total = 0;
  for (uint32_t i = 0; i < stream_count; ++i) total += streams[i].slots;
  return total;
}

Result<size_t> encode_handshake(const Handshake& handshake, PacketBuffer& out) {
  RETURN_IF_ERROR(check_source(handshake.source));
  RETURN_IF_ERROR(check_streams_distinct(handshake));
  PacketWriter writer(out, PacketType::kHandshake);
  writer.put(handshake.stream_count);
  writer.put(static_cast<uint32_t>(handshake.source.size()));
  for (uint32_t i = 0; i < handshake.stream_count; ++i) {
    RETURN_IF_ERROR(check_stream(handshake.streams[i]));
    put_stream_info(writer, handshake.streams[i]);
  }
  writer.put_text(handshake.source);
  return writer.size();
}

size_t encode_frame(const FrameMeta& meta, PacketBuffer& out) {
  PacketWriter writer(out, PacketType::kFrame);
  writer.put(static_cast<uint32_t>(meta.stream));
  writer.put(meta.slot);
  writer.put(meta.frame_id);
  writer.put(meta.sof_ns);
  writer.put(meta.eof_ns);
  return writer.size();
}

size_t encode_release(const ReleasePacket& release, PacketBuffer& out) {
  PacketWriter writer(out, PacketType::kRelease);
  writer.put(static_cast<uint32_t>(release.stream));
  writer.put(release.slot);
  writer.put(release.frame_id);
  return writer.size();
}

Result<Handshake> parse_handshake(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "camera handshake");
  RETURN_IF_ERROR(read_prefix(in, PacketType::kHandshake));
  Handshake out;
  ASSIGN_OR_RETURN(out.stream_count, in.read<uint32_t>());
  ASSIGN_OR_RETURN(const uint32_t source_size, in.read<uint32_t>());
  if (out.stream_count == 0 || out.stream_count > kStreamCount)
    return fail(Errc::kProtocol,
                strf("camera handshake: %u streams, want 1 to %d", out.stream_count, kStreamCount));
  if (source_size > kMaxSourceText)
    return fail(Errc::kProtocol, strf("camera handshake: source string of %u bytes, limit %zu",
                                      source_size, kMaxSourceText));
  for (uint32_t i = 0; i < out.stream_count; ++i) {
    ASSIGN_OR_RETURN(out.streams[i], read_stream_info(in));
  }
  RETURN_IF_ERROR(check_streams_distinct(out));
  ASSIGN_OR_RETURN(out.source, in.read_string(source_size));
  RETURN_IF_ERROR(check_source(out.source));
  RETURN_IF_ERROR(expect_end(in));
  return out;
}

Result<FrameMeta> parse_frame(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "camera frame packet");
  RETURN_IF_ERROR(read_prefix(in, PacketType::kFrame));
  FrameMeta meta;
  ASSIGN_OR_RETURN(meta.stream, read_stream(in));
  ASSIGN_OR_RETURN(meta.slot, read_slot(in));
  ASSIGN_OR_RETURN(meta.frame_id, in.read<uint64_t>());
  ASSIGN_OR_RETURN(meta.sof_ns, in.read<int64_t>());
  ASSIGN_OR_RETURN(meta.eof_ns, in.read<int64_t>());
  RETURN_IF_ERROR(expect_end(in));
  return meta;
}

Result<ReleasePacket> parse_release(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "camera release packet");
  RETURN_IF_ERROR(read_prefix(in, PacketType::kRelease));
  ReleasePacket release;
  ASSIGN_OR_RETURN(release.stream, read_stream(in));
  ASSIGN_OR_RETURN(release.slot, read_slot(in));
  ASSIGN_OR_RETURN(release.frame_id, in.read<uint64_t>());
  RETURN_IF_ERROR(expect_end(in));
  return release;
}

}  // namespace modeld::ipc
