#include "ipc/frame_protocol.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

namespace modeld::ipc {
namespace {

Handshake sample() {
  Handshake h;
  h.stream_count = 2;
  h.streams[0] = StreamInfo{StreamId::kRoad, *nv12_geometry(1928, 1208),
                            default_intrinsics(StreamId::kRoad, 1928, 1208), 18, 20};
  h.streams[1] = StreamInfo{StreamId::kCabin, *nv12_geometry(1344, 760),
                            default_intrinsics(StreamId::kCabin, 1344, 760), 18, 20};
  h.source = "synth;seed=1";
  return h;
}

// The bytes that an encoder without our checks would send.
std::vector<std::byte> bytes_with(const std::function<void(std::byte*)>& change) {
  PacketBuffer packet;
  const size_t n = *encode_handshake(sample(), packet);
  change(packet.data());
  return {packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(n)};
}

template <class T>
std::vector<std::byte> bytes_with_field(size_t offset, T value) {
  return bytes_with([&](std::byte* p) { std::memcpy(p + offset, &value, sizeof(T)); });
}

// Offsets in the first stream record: stream, width, height, stride, y_height, uv_height,
// uv_offset, size, slots, fps.
constexpr size_t kFirstStream = 16;

TEST(FrameProtocol, HandshakeRoundTrip) {
  PacketBuffer packet;
  const auto n = encode_handshake(sample(), packet);
  ASSERT_TRUE(n.ok());
  const auto out = parse_handshake(std::span(packet).first(*n));
  ASSERT_TRUE(out.ok()) << out.error().what;
  EXPECT_EQ(*out, sample());
  EXPECT_EQ(out->slot_total(), 36u);
}

TEST(FrameProtocol, HandshakeCarriesPathsInUtf8) {
  Handshake h = sample();
  h.source = "y4m;road=/m\xc3\xa4rz.y4m";
  PacketBuffer packet;
  const auto n = encode_handshake(h, packet);
  ASSERT_TRUE(n.ok());
  const auto out = parse_handshake(std::span(packet).first(*n));
  ASSERT_TRUE(out.ok()) << out.error().what;
  EXPECT_EQ(out->source, h.source);
}

TEST(FrameProtocol, HandshakeRefusesControlCharactersOnBothSides) {
  Handshake h = sample();
  h.source = "synth;\x1b[2J";
  PacketBuffer packet;
  EXPECT_FALSE(encode_handshake(h, packet).ok());
  EXPECT_FALSE(parse_handshake(bytes_with_field<char>(16 + 2 * 72, '\x1b')).ok());
}

TEST(FrameProtocol, FrameAndReleaseRoundTrip) {
  PacketBuffer packet;
  const FrameMeta meta{StreamId::kWide, 3, 77, 1000, 2000};
  size_t n = encode_frame(meta, packet);
  const auto frame = parse_frame(std::span(packet).first(n));
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(*frame, meta);
  n = encode_release({StreamId::kCabin, 5, 99}, packet);
  const auto release = parse_release(std::span(packet).first(n));
  ASSERT_TRUE(release.ok());
  EXPECT_EQ(release->slot, 5u);
  EXPECT_EQ(release->frame_id, 99u);
  EXPECT_FALSE(parse_frame(std::span(packet).first(n)).ok());
}

TEST(FrameProtocol, EveryTruncationAndExtensionIsAnError) {
  const std::vector<std::byte> good = bytes_with([](std::byte*) {});
  for (size_t n = 0; n < good.size(); ++n)
    EXPECT_FALSE(parse_handshake(std::span(good).first(n)).ok()) << n;
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(parse_handshake(longer).ok());
  PacketBuffer packet;
  const size_t frame_size = encode_frame({}, packet);
  for (size_t n = 0; n < frame_size; ++n)
    EXPECT_FALSE(parse_frame(std::span(packet).first(n)).ok());
}

TEST(FrameProtocol, RefusesGeometryThatDoesNotHoldTogether) {
  EXPECT_FALSE(
      parse_handshake(bytes_with_field<uint32_t>(kFirstStream + 4, 1927)).ok());  // odd width
  EXPECT_FALSE(
      parse_handshake(bytes_with_field<uint32_t>(kFirstStream + 4, 4000)).ok());  // width > stride
  EXPECT_FALSE(parse_handshake(bytes_with_field<uint32_t>(kFirstStream + 8, 0)).ok());  // no rows
  EXPECT_FALSE(parse_handshake(bytes_with_field<uint32_t>(kFirstStream + 8, 1300))
                   .ok());  // height > y_height
  EXPECT_FALSE(parse_handshake(bytes_with_field<uint32_t>(kFirstStream + 12, 0xffffff80))
                   .ok());  // stride overflows
  EXPECT_FALSE(
      parse_handshake(bytes_with_field<uint32_t>(kFirstStream + 20, 100)).ok());  // uv rows missing
  EXPECT_FALSE(
      parse_handshake(bytes_with_field<uint32_t>(kFirstStream + 24, 4096)).ok());  // uv inside luma
  EXPECT_FALSE(parse_handshake(bytes_with_field<uint32_t>(kFirstStream + 24, 0xfffff000))
                   .ok());  // uv past the end
  EXPECT_FALSE(parse_handshake(bytes_with_field<uint32_t>(kFirstStream + 28, 3735551))
                   .ok());  // one byte short
  EXPECT_TRUE(parse_handshake(bytes_with_field<uint32_t>(kFirstStream + 28, 3735552)).ok());
}

TEST(FrameProtocol, RefusesUnknownStreamsSlotsAndRates) {
  EXPECT_FALSE(parse_handshake(bytes_with_field<uint32_t>(8, 0)).ok());             // no streams
  EXPECT_FALSE(parse_handshake(bytes_with_field<uint32_t>(8, 4)).ok());             // four
  EXPECT_FALSE(parse_handshake(bytes_with_field<uint32_t>(12, 5000)).ok());         // source text
  EXPECT_FALSE(parse_handshake(bytes_with_field<uint32_t>(kFirstStream, 3)).ok());  // stream 3
  EXPECT_FALSE(parse_handshake(bytes_with_field<uint32_t>(kFirstStream, 2)).ok());  // cabin twice
  EXPECT_FALSE(parse_handshake(bytes_with_field<uint32_t>(kFirstStream + 32, 0)).ok());  // no slots
  EXPECT_FALSE(
      parse_handshake(bytes_with_field<uint32_t>(kFirstStream + 32, kMaxSlotsPerStream + 1)).ok());
  EXPECT_FALSE(parse_handshake(bytes_with_field<uint32_t>(kFirstStream + 36, 0)).ok());  // 0 fps
  EXPECT_FALSE(parse_handshake(bytes_with_field<double>(kFirstStream + 40, std::nan(""))).ok());
  EXPECT_FALSE(parse_handshake(bytes_with_field<double>(kFirstStream + 40, -1.0)).ok());
}

TEST(FrameProtocol, RefusesAnotherProtocolOrVersion) {
  EXPECT_FALSE(parse_handshake(bytes_with_field<uint32_t>(0, 0)).ok());
  const auto version = parse_handshake(bytes_with_field<uint16_t>(4, 2));
  ASSERT_FALSE(version.ok());
  EXPECT_EQ(version.error().code, Errc::kMismatch);
}

TEST(FrameProtocol, RandomBytesNeverDoMoreThanFail) {
  std::mt19937 random(2);
  const std::vector<std::byte> good = bytes_with([](std::byte*) {});
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bad = good;
    bad[random() % bad.size()] = static_cast<std::byte>(random() & 0xff);
    const auto out = parse_handshake(bad);
    if (!out.ok()) continue;
    for (uint32_t s = 0; s < out->stream_count; ++s) {
      const Nv12Geometry& g = out->streams[s].geometry;
      EXPECT_LE(uint64_t{g.uv_offset} + uint64_t{g.stride} * (g.height / 2), g.size);
    }
  }
}

TEST(FrameProtocol, ASlotNumberOverTheLimitIsRefused) {
  PacketBuffer packet;
  FrameMeta meta;
  meta.slot = kMaxSlotsPerStream;
  const size_t n = encode_frame(meta, packet);
  EXPECT_FALSE(parse_frame(std::span(packet).first(n)).ok());
}

}  // namespace
}  // namespace modeld::ipc
