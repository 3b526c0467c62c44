// Bytes of the camera channel: one hello packet (with every buffer fd), then frame packets one way
// and release packets the other. Little-endian, fixed layout, one packet per SEQPACKET message;
// parsers trust nothing and are fuzzed. Threading: pure functions. Encoding writes into the
// caller's buffer; parse_frame and parse_release do not allocate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "hal/base/status.h"

#include "ipc/frame.h"

namespace modeld::ipc {

inline constexpr uint32_t kMaxSlotsPerStream = 32;
inline constexpr size_t kMaxSourceText = 512;
inline constexpr size_t kMaxPacketBytes = 1024;

// What a client learns on connecting. Descriptors come beside it, in stream order, slots of a
// stream together.
struct Handshake {
  uint32_t stream_count = 0;
  std::array<StreamInfo, kStreamCount> streams{};
  std::string source;  // ipc/frame_source.h
  uint32_t slot_total() const;
  bool operator==(const Handshake&) const = default;
};

struct ReleasePacket {
  StreamId stream = StreamId::kRoad;
  uint32_t slot = 0;
  uint64_t frame_id = 0;
};

using PacketBuffer = std::array<std::byte, kMaxPacketBytes>;

Result<size_t> encode_handshake(const Handshake& handshake, PacketBuffer& out);
size_t encode_frame(const FrameMeta& meta, PacketBuffer& out);
size_t encode_release(const ReleasePacket& release, PacketBuffer& out);

// Checks every field: known streams, each once; geometry consistent with itself (stride >= width,
// planes inside size, no overlap, no overflow); finite positive focal lengths; slot counts within
// limits.
Result<Handshake> parse_handshake(std::span<const std::byte> bytes);
Result<FrameMeta> parse_frame(std::span<const std::byte> bytes);
Result<ReleasePacket> parse_release(std::span<const std::byte> bytes);

}  // namespace modeld::ipc
