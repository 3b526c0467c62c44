#include "models/common/scalar_warp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace modeld::models {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr Matrix3f kIdentity = {1, 0, 0, 0, 1, 0, 0, 0, 1};

struct Picture {
  std::vector<uint8_t> bytes;
  uint32_t width, height, stride, uv_offset;
  Nv12View view() const { return {bytes, width, height, stride, uv_offset}; }
  uint8_t luma(uint32_t x, uint32_t y) const { return bytes[y * stride + x]; }
  uint8_t chroma(uint32_t x, uint32_t y, uint32_t plane) const {
    return bytes[uv_offset + y * stride + 2 * x + plane];
  }
};

Picture noise(uint32_t width, uint32_t height, uint32_t stride, uint32_t gap, uint32_t seed) {
  Picture p{{}, width, height, stride, stride * height + gap};
  std::mt19937 random(seed);
  p.bytes.resize(p.uv_offset + stride * (height / 2));
  for (uint8_t& byte : p.bytes) byte = static_cast<uint8_t>(random());
  return p;
}

TEST(ScalarWarp, IdentityPacksTheSixChannels) {
  const Picture p = noise(16, 8, 24, 5, 1);
  std::vector<uint8_t> out(16 * 8 / 4 * 6);
  ASSERT_TRUE(scalar_road_warp(p.view(), kIdentity, 16, 8, out).ok());
  const auto at = [&](size_t channel, size_t i, size_t j) {
    return out[(channel * 4 + i) * 8 + j];
  };
  for (uint32_t i = 0; i < 4; ++i) {
    for (uint32_t j = 0; j < 8; ++j) {
      EXPECT_EQ(at(0, i, j), p.luma(2 * j, 2 * i));
      EXPECT_EQ(at(1, i, j), p.luma(2 * j, 2 * i + 1));
      EXPECT_EQ(at(2, i, j), p.luma(2 * j + 1, 2 * i));
      EXPECT_EQ(at(3, i, j), p.luma(2 * j + 1, 2 * i + 1));
      EXPECT_EQ(at(4, i, j), p.chroma(j, i, 0));
      EXPECT_EQ(at(5, i, j), p.chroma(j, i, 1));
    }
  }
}

TEST(ScalarWarp, ClampsToTheBorderAndFillsTheCabinOutside) {
  const Picture p = noise(8, 8, 8, 0, 2);
  const Matrix3f shift = {1, 0, -3, 0, 1, 5, 0, 0, 1};  // model (x, y) looks at (x - 3, y + 5)
  std::vector<uint8_t> out(64);
  ASSERT_TRUE(scalar_cabin_warp(p.view(), shift, 8, 8, out).ok());
  for (uint32_t y = 0; y < 8; ++y) {
    for (uint32_t x = 0; x < 8; ++x) {
      const bool inside = x >= 3 && y < 3;
      EXPECT_EQ(out[y * 8 + x], inside ? p.luma(x - 3, y + 5) : kOutsideLuma);
    }
  }
  std::vector<uint8_t> road(96);
  ASSERT_TRUE(scalar_road_warp(p.view(), shift, 8, 8, road).ok());
  EXPECT_EQ(road[0], p.luma(0, 5));
  EXPECT_EQ(
      road[15],
      p.luma(3, 7));  // channel 0, i = 3, j = 3: pixel (6, 6) looks at (3, 11), clamped to row 7
}

TEST(ScalarWarp, RoundsHalvesUpAndSurvivesEveryNumber) {
  const auto at = [](float x) { return warp_pixel({0, 0, x, 0, 0, 1, 0, 0, 1}, 0, 0, 10, 10); };
  EXPECT_EQ(at(2.49f).column, 2);
  EXPECT_EQ(at(2.5f).column, 3);
  EXPECT_EQ(at(-0.5f).column, 0);
  EXPECT_TRUE(at(-0.5f).inside);
  EXPECT_FALSE(at(-0.51f).inside);
  EXPECT_EQ(at(9.49f).column, 9);
  EXPECT_TRUE(at(9.49f).inside);
  EXPECT_EQ(at(9.5f).column, 9);
  EXPECT_FALSE(at(9.5f).inside);
  for (const float bad : {kNan, kInf, -kInf, 3e38f, -3e38f}) {
    const WarpedPixel p = at(bad);
    EXPECT_EQ(p.column, bad > 0 ? 9 : 0) << bad;
    EXPECT_FALSE(p.inside) << bad;
  }
  // An all-zero matrix (no calibration) divides zero by zero: NaN.
  EXPECT_EQ(warp_pixel({}, 5, 5, 10, 10).column, 0);
}

// Against double: a pixel may differ from the exactly rounded one only next to a rounding boundary.
TEST(ScalarWarp, AgreesWithDoubleAwayFromBoundaries) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> angle(-0.1, 0.1);
  size_t exact = 0;
  for (int round = 0; round < 20; ++round) {
    const Matrix3f m = *road_warp_matrix({2648, 2648, 964, 604}, *model_pinhole("road", 512),
                                         {angle(random), angle(random), angle(random)});
    for (int32_t y = 0; y < 256; y += 5) {
      for (int32_t x = 0; x < 512; x += 7) {
        const double w = double{m[6]} * x + double{m[7]} * y + m[8];
        const double u = (double{m[0]} * x + double{m[1]} * y + m[2]) / w;
        const double clamped = std::min(std::max(std::floor(u + 0.5), 0.0), 1927.0);
        const WarpedPixel p = warp_pixel(m, x, y, 1928, 1208);
        if (std::abs(u + 0.5 - std::round(u + 0.5)) > 2e-3) {
          ASSERT_EQ(p.column, clamped) << u;
          ++exact;
        } else {
          ASSERT_LE(std::abs(p.column - clamped), 1);
        }
      }
    }
  }
  EXPECT_GT(exact, 70'000u);
}

TEST(ScalarWarp, RefusesGeometryThatDoesNotFit) {
  EXPECT_EQ(*nv12_used_bytes(1928, 1208, 2048, 2490368), 2490368u + 2048 * 604);
  EXPECT_FALSE(nv12_used_bytes(1928, 1208, 1920, 2490368).ok());
  EXPECT_FALSE(nv12_used_bytes(1928, 1208, 2048, 2048 * 1208 - 1).ok());
  EXPECT_FALSE(nv12_used_bytes(7, 8, 8, 64).ok());
  EXPECT_FALSE(nv12_used_bytes(0, 8, 8, 64).ok());
  Picture p = noise(8, 8, 8, 0, 4);
  std::vector<uint8_t> out(96);
  p.bytes.pop_back();
  EXPECT_FALSE(scalar_road_warp(p.view(), kIdentity, 8, 8, out).ok());
  p = noise(8, 8, 8, 0, 4);
  EXPECT_TRUE(scalar_road_warp(p.view(), kIdentity, 8, 8, out).ok());
  out.pop_back();
  EXPECT_FALSE(scalar_road_warp(p.view(), kIdentity, 8, 8, out).ok());
}

}  // namespace
}  // namespace modeld::models
