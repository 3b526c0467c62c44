#include "ipc/synth_scene.h"

#include <algorithm>

#include "hal/base/hash.h"

namespace modeld::ipc {
namespace {

std::vector<uint8_t> drawn(const SynthScene& scene,
                           const Nv12Geometry& g,
                           uint64_t id,
                           bool black = false,
                           uint8_t before = 0) {
  std::vector<uint8_t> out(g.size, before);
  scene.draw(id, black, out);
  out.resize(g.stride * (g.y_height + g.uv_height));
  return out;
}

class Synth : public testing::TestWithParam<StreamId> {
 protected:
  Nv12Geometry g_ = *nv12_geometry(322, 202);
};

TEST_P(Synth, TheSameFrameTwiceIsTheSameBytesWhateverTheBufferHeld) {
  const SynthScene one(7, GetParam(), g_);
  const SynthScene two(7, GetParam(), g_);
  for (const uint64_t id : {0u, 1u, 63u, 1000000u})
    EXPECT_EQ(drawn(one, g_, id, false, 0), drawn(two, g_, id, false, 0xab)) << id;
}

TEST_P(Synth, FramesSeedsAndStreamsDiffer) {
  const SynthScene scene(7, GetParam(), g_);
  const SynthScene other_seed(8, GetParam(), g_);
  EXPECT_NE(drawn(scene, g_, 1), drawn(scene, g_, 2));
  EXPECT_NE(drawn(scene, g_, 1), drawn(other_seed, g_, 1));
  for (const StreamId stream : {StreamId::kRoad, StreamId::kWide, StreamId::kCabin}) {
    if (stream != GetParam()) {
      EXPECT_NE(drawn(scene, g_, 1), drawn(SynthScene(7, stream, g_), g_, 1));
    }
  }
}

TEST_P(Synth, HasNoZeroByteUnlessBlack) {
  const SynthScene scene(7, GetParam(), g_);
  for (uint64_t id = 0; id < 300; id += 7) {
    const auto bytes = drawn(scene, g_, id);
    ASSERT_EQ(std::count(bytes.begin(), bytes.end(), 0), 0) << id;
  }
  const auto black = drawn(scene, g_, 5, true);
  const auto zeros = static_cast<size_t>(std::count(black.begin(), black.end(), 0));
  EXPECT_EQ(zeros, size_t{g_.height / 2} * g_.stride);
  for (uint32_t y = g_.height / 4; y < g_.height / 4 + g_.height / 2; ++y)
    ASSERT_EQ(black[y * g_.stride + g_.width / 2], 0);
}

TEST_P(Synth, TheSceneMoves) {
  // More than the noise changes: some pixel differs by more than noise can make.
  const SynthScene scene(7, GetParam(), g_);
  const auto a = drawn(scene, g_, 10);
  const auto b = drawn(scene, g_, 40);
  int largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  EXPECT_GT(largest, 40);
}

INSTANTIATE_TEST_SUITE_P(Streams,
                         Synth,
                         testing::Values(StreamId::kRoad, StreamId::kWide, StreamId::kCabin),
                         [](const auto& stream) { return std::string(stream_name(stream.param)); });

std::string digest(StreamId stream) {
  const Nv12Geometry g = *nv12_geometry(1928, 1208);
  const std::vector<uint8_t> bytes = drawn(SynthScene(1, stream, g), g, 123);
  return xxh128(std::as_bytes(std::span(bytes))).hex();
}

// Pinned: a recording made today must replay on every later version and machine.
TEST(SynthPinned, BytesNeverChange) {
  EXPECT_EQ(digest(StreamId::kRoad), "a3d11632028b5296bded54b2a1cd4cc2");
  EXPECT_EQ(digest(StreamId::kWide), "452b334ab890f65ecefd2623b3a1c549");
  EXPECT_EQ(digest(StreamId::kCabin), "3c9e09c0b320c9d816126788c04501b7");
}

}  // namespace
}  // namespace modeld::ipc
