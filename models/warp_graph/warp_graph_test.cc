#include "models/warp_graph/warp_graph.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/tensor/host_eval.h"

#include "models/common/scalar_warp.h"

namespace modeld::warp_graph {
namespace {

using models::Matrix3f;

constexpr WarpSpec kSpec{
    .camera_width = 60, .camera_height = 38, .model_width = 32, .model_height = 16};
constexpr int64_t kStride = 72;
constexpr int64_t kUvOffset = kStride * 38 + 11;

std::vector<Matrix3f> matrices() {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<Matrix3f> out = {{1, 0, 0, 0, 1, 0, 0, 0, 1},
                               {},  // not calibrated: divides by zero
                               {1, 0, -9.5f, 0, 1, 30.5f, 0, 0, 1},
                               {0, 0, kNan, 0, 0, kInf, 0, 0, 1},
                               {1e30f, 0, 0, 0, -1e30f, 0, 0, 0, 1e-20f}};
  std::mt19937 random(2);
  std::uniform_real_distribution<float> around(-1, 1);
  for (int i = 0; i < 12; ++i) {
    out.push_back({1.9f + around(random), 0.2f * around(random), 10 * around(random),
                   0.2f * around(random), 2.4f + around(random), 10 * around(random),
                   0.02f * around(random), 0.02f * around(random), 1 + 0.3f * around(random)});
  }
  return out;
}

std::vector<uint8_t> noise() {
  std::vector<uint8_t> bytes(
      static_cast<size_t>(nv12_buffer_bytes(kSpec.camera_width, kSpec.camera_height)));
  std::mt19937 random(1);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// The graph's picture by the reference interpreter.
std::vector<uint8_t> interpret(ir::Graph& g,
                               const WarpGraph& w,
                               const Matrix3f& m,
                               const std::vector<uint8_t>& nv12) {
  tensor::HostEval interp(g);
  interp.bind(w.nv12,
              *tensor::from_bytes(ir::DType::kU8, w.nv12.dims(), std::as_bytes(std::span(nv12))));
  interp.bind(w.matrix, *tensor::from_bytes(ir::DType::kF32, {3, 3}, std::as_bytes(std::span(m))));
  interp.set_variable("stride", kStride);
  interp.set_variable("uv_offset", kUvOffset);
  const Result<tensor::HostArray> image = interp.run(w.image);
  EXPECT_TRUE(image.ok()) << (image.ok() ? "" : image.error().what);
  std::vector<uint8_t> out;
  if (!image.ok()) return out;
  for (const tensor::Cell& cell : image->cells) out.push_back(static_cast<uint8_t>(cell.i));
  return out;
}

TEST(WarpGraph, RoadEqualsTheScalarWarpBitForBit) {
  ir::Graph g;
  const Result<WarpGraph> w = build_road_warp(g, kSpec);
  ASSERT_TRUE(w.ok()) << w.error().what;
  EXPECT_EQ(w->image.dims(), (tensor::Dims{1, 6, 8, 16}));
  EXPECT_EQ(w->image.dtype(), ir::DType::kU8);
  const std::vector<uint8_t> nv12 = noise();
  const models::Nv12View view{nv12, kSpec.camera_width, kSpec.camera_height, kStride, kUvOffset};
  for (const Matrix3f& m : matrices()) {
    std::vector<uint8_t> wanted(6 * 8 * 16);
    ASSERT_TRUE(
        models::scalar_road_warp(view, m, kSpec.model_width, kSpec.model_height, wanted).ok());
    ASSERT_EQ(interpret(g, *w, m, nv12), wanted);
  }
}

TEST(WarpGraph, CabinEqualsTheScalarWarpBitForBit) {
  ir::Graph g;
  const Result<WarpGraph> w = build_cabin_warp(g, kSpec);
  ASSERT_TRUE(w.ok()) << w.error().what;
  EXPECT_EQ(w->image.dims(), (tensor::Dims{1, 32 * 16}));
  const std::vector<uint8_t> nv12 = noise();
  const models::Nv12View view{nv12, kSpec.camera_width, kSpec.camera_height, kStride, kUvOffset};
  for (const Matrix3f& m : matrices()) {
    std::vector<uint8_t> wanted(32 * 16);
    ASSERT_TRUE(
        models::scalar_cabin_warp(view, m, kSpec.model_width, kSpec.model_height, wanted).ok());
    ASSERT_EQ(interpret(g, *w, m, nv12), wanted);
  }
}

TEST(WarpGraph, BufferSizesAreThoseOfTheKnownCameras) {
  EXPECT_EQ(nv12_buffer_bytes(1928, 1208), 4804608);
  EXPECT_EQ(nv12_buffer_bytes(1344, 760), 2428928);
  EXPECT_EQ(warp_entry_name("road", 1928, 1208), "warp/road/1928x1208");
}

TEST(WarpGraph, RefusesOddAndHugeSides) {
  ir::Graph g;
  for (const WarpSpec& bad : {WarpSpec{7, 8, 8, 8}, WarpSpec{8, 0, 8, 8}, WarpSpec{8, 8, 9, 8},
                              WarpSpec{16384, 8, 8, 8}}) {
    EXPECT_FALSE(build_road_warp(g, bad).ok());
    EXPECT_FALSE(build_cabin_warp(g, bad).ok());
  }
}

}  // namespace
}  // namespace modeld::warp_graph
