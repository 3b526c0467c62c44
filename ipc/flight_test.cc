#include "ipc/flight.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "hal/base/hash.h"

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

// The hash of head and body put right again.
std::vector<std::byte> with_hash(std::vector<std::byte> file) {
  uint64_t size = 0;
  std::memcpy(&size, file.data() + 8, sizeof size);
  const Hash128 h = xxh128(std::span(file).first(16 + size));
  std::memcpy(file.data() + 16 + size, &h.lo, sizeof h.lo);
  std::memcpy(file.data() + 24 + size, &h.hi, sizeof h.hi);
  return file;
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

// A reader of the picture stays within its bytes.
TEST(Flight, APictureLargerThanItsBytesIsAnError) {
  for (uint32_t FlightPicture::*const field : {&FlightPicture::width, &FlightPicture::height,
                                               &FlightPicture::stride, &FlightPicture::uv_offset}) {
    Flight f = sample();
    f.pictures[0].*field += 1u << 20;
    const auto back = parse_flight(encode_flight(f));
    ASSERT_FALSE(back.ok());
    EXPECT_THAT(back.error().what, testing::HasSubstr("do not fit 96 bytes"));
  }
}

// Its two recordings are of one camera: what is written down once more must be the same.
TEST(Flight, RunsOfTwoSourcesAreAnError) {
  const Flight f = sample();
  const std::vector<std::byte> failed = encode_recording({f.source, {f.failed}});
  const std::vector<std::byte> other =
      encode_recording({std::string(f.source.size(), 'x'), {f.failed}});
  ASSERT_EQ(other.size(), failed.size());
  std::vector<std::byte> wrong = encode_flight(f);
  const auto at = std::search(wrong.begin(), wrong.end(), failed.begin(), failed.end());
  ASSERT_NE(at, wrong.end());
  std::copy(other.begin(), other.end(), at);
  const auto back = parse_flight(with_hash(wrong));
  ASSERT_FALSE(back.ok());
  EXPECT_THAT(back.error().what, testing::HasSubstr("another source"));
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
