#include "ipc/flight.h"

#include <limits>

namespace modeld::ipc {
namespace {

const std::vector<uint8_t> kPixels(96, 7);

Flight sample() {
  Flight f;
  f.reason = Reason::kNonFinite;
  f.text = "outputs[3] is nan";
  f.bundle_id = "abcd";
  f.device = "cpu";
  f.time_ns = 123'456'789;
  f.source = "synth;seed=1;vehicle=straight;fps=20;road=64x48";
  for (uint64_t i = 1; i < 4; ++i) {
    RecordedRun r;
    r.frame_id = 70 + i;
    r.wide_frame_id = 70 + i;
    r.resets = 1;
    r.since_reset = i;
    r.raw = {static_cast<float>(i), 2};
    f.before.push_back(r);
  }
  f.failed = f.before.back();
  f.failed.frame_id = 80;
  f.failed.raw = {std::numeric_limits<float>::infinity(), 2};
  f.tensors = {{false, "img", std::vector<std::byte>(8, std::byte{1})},
               {true, "outputs", std::vector<std::byte>(4, std::byte{2})}};
  f.pictures = {{StreamId::kWide, 80, 8, 8, 8, 64, kPixels}};
  return f;
}

TEST(Flight, SurvivesTheFile) {
  const Flight f = sample();
  const std::vector<std::byte> bytes = encode_flight(f);
  const auto back = parse_flight(bytes);
  ASSERT_TRUE(back.ok()) << back.error().what;
  EXPECT_EQ(back->reason, f.reason);
  EXPECT_EQ(back->text, f.text);
  EXPECT_EQ(back->bundle_id, f.bundle_id);
  EXPECT_EQ(back->device, f.device);
  EXPECT_EQ(back->time_ns, f.time_ns);
  EXPECT_EQ(back->source, f.source);
  EXPECT_EQ(back->before, f.before);
  EXPECT_EQ(back->failed, f.failed);
  EXPECT_EQ(back->tensors, f.tensors);
  ASSERT_EQ(back->pictures.size(), 1u);
  EXPECT_EQ(back->pictures[0].stream, StreamId::kWide);
  EXPECT_EQ(back->pictures[0].frame_id, 80u);
  EXPECT_TRUE(std::equal(back->pictures[0].nv12.begin(), back->pictures[0].nv12.end(),
                         kPixels.begin(), kPixels.end()));
  EXPECT_EQ(encode_flight(*back), bytes);
}

TEST(Flight, CutAtAnyByteItIsAnError) {
  const std::vector<std::byte> bytes = encode_flight(sample());
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(parse_flight(std::span(bytes).first(n)).ok()) << n;
}

TEST(Flight, WithAnyBitChangedItIsAnError) {
  const std::vector<std::byte> bytes = encode_flight(sample());
  for (size_t i = 0; i < bytes.size() * 8; i += 3) {
    std::vector<std::byte> wrong = bytes;
    wrong[i / 8] ^= std::byte{1} << (i % 8);
    EXPECT_FALSE(parse_flight(wrong).ok()) << i;
  }
}

// What a worker wrote has no hash to guard it.
TEST(Flight, TensorsOfAnyBytesAreAnErrorOrTensors) {
  std::vector<std::byte> bytes = encode_tensor_count(1);
  const auto head = encode_tensor_head(true, "outputs", 4);
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.resize(bytes.size() + 4, std::byte{9});
  const auto good = parse_tensors(bytes);
  ASSERT_TRUE(good.ok()) << good.error().what;
  EXPECT_EQ((*good)[0].name, "outputs");
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(parse_tensors(std::span(bytes).first(n)).ok()) << n;
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::vector<std::byte> wrong = bytes;
    wrong[i] = std::byte{255};
    (void)parse_tensors(wrong).ok();
  }
  EXPECT_FALSE(parse_tensors(encode_tensor_count(kMaxFlightTensors + 1)).ok());
}

}  // namespace
}  // namespace modeld::ipc
