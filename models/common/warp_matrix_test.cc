#include "models/common/warp_matrix.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

namespace modeld::models {
namespace {

using Vector = std::array<double, 3>;

Vector apply(const Matrix3d& m, const Vector& v) {
  Vector out{};
  for (size_t row = 0; row < 3; ++row) {
    for (size_t k = 0; k < 3; ++k) out[row] += m[row * 3 + k] * v[k];
  }
  return out;
}

// One rotation after the other, straight from the definition of roll, pitch and yaw.
Vector rotate(const std::array<double, 3>& rpy, Vector v) {
  const double r = rpy[0];
  const double p = rpy[1];
  const double y = rpy[2];
  v = {v[0], std::cos(r) * v[1] - std::sin(r) * v[2], std::sin(r) * v[1] + std::cos(r) * v[2]};
  v = {std::cos(p) * v[0] + std::sin(p) * v[2], v[1], -std::sin(p) * v[0] + std::cos(p) * v[2]};
  return {std::cos(y) * v[0] - std::sin(y) * v[1], std::sin(y) * v[0] + std::cos(y) * v[1], v[2]};
}

// Pixel of a point in device axes (x forward, y right, z down).
std::array<double, 2> project(const Pinhole& k, const Vector& device) {
  return {k.fx * device[1] / device[0] + k.cx, k.fy * device[2] / device[0] + k.cy};
}

std::array<double, 2> map(const Matrix3f& m, double x, double y) {
  const Matrix3d wide = {m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8]};
  const Vector v = apply(wide, {x, y, 1});
  return {v[0] / v[2], v[1] / v[2]};
}

constexpr Pinhole kNarrow{2648, 2648, 964, 604};

TEST(WarpMatrix, UncalibratedRoadMapsModelCentreToCameraCentre) {
  const Result<Pinhole> model = model_pinhole("road", 512);
  ASSERT_TRUE(model.ok());
  const Result<Matrix3f> m = road_warp_matrix(kNarrow, *model, {0, 0, 0});
  ASSERT_TRUE(m.ok());
  const auto centre = map(*m, 256, 47.6);
  EXPECT_NEAR(centre[0], 964, 1e-3);
  EXPECT_NEAR(centre[1], 604, 1e-3);
  // One model pixel is 2648 / 910 camera pixels.
  EXPECT_NEAR(map(*m, 257, 47.6)[0] - centre[0], 2648.0 / 910, 1e-4);
}

// What both pictures show at corresponding pixels is the same point of the world.
TEST(WarpMatrix, CorrespondingPixelsShowTheSamePoint) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> angle(-0.15, 0.15);
  std::uniform_real_distribution<double> side(-4, 4);
  std::uniform_real_distribution<double> ahead(8, 60);
  for (const char* stream : {"road", "wide"}) {
    const Pinhole model = *model_pinhole(stream, 512);
    for (int i = 0; i < 200; ++i) {
      const std::array<double, 3> rpy = {angle(random), angle(random), angle(random)};
      const Vector calib = {ahead(random), side(random), side(random)};
      const Vector device = rotate(rpy, calib);
      const Matrix3f m = *road_warp_matrix(kNarrow, model, rpy);
      const auto in_model = project(model, calib);
      const auto in_camera = project(kNarrow, device);
      const auto mapped = map(m, in_model[0], in_model[1]);
      EXPECT_NEAR(mapped[0], in_camera[0], 2e-2);
      EXPECT_NEAR(mapped[1], in_camera[1], 2e-2);
    }
  }
}

TEST(WarpMatrix, CabinIsAShiftWhenFocalLengthsAgree) {
  const Pinhole model = *model_pinhole("cabin", 1440);
  EXPECT_EQ(model, (Pinhole{567, 567, 720, 356}));
  const Matrix3f m = *cabin_warp_matrix({567, 567, 964, 604}, model);
  const auto mapped = map(m, 10, 20);
  EXPECT_NEAR(mapped[0], 10 + 244, 1e-3);
  EXPECT_NEAR(mapped[1], 20 + 248, 1e-3);
}

TEST(WarpMatrix, ModelIntrinsicsScaleWithThePicture) {
  EXPECT_EQ(*model_pinhole("road", 512), (Pinhole{910, 910, 256, 47.6}));
  EXPECT_EQ(*model_pinhole("wide", 64), (Pinhole{455.0 / 8, 455.0 / 8, 32, 151.8 / 8}));
  EXPECT_EQ(*model_pinhole("cabin", 180), (Pinhole{567.0 / 8, 567.0 / 8, 90, 356.0 / 8}));
  EXPECT_EQ(model_pinhole("rear", 512).error().what, "model intrinsics: no stream 'rear'");
}

TEST(WarpMatrix, ChromaMatrixMapsHalfSizePlanes) {
  const Matrix3f m = *road_warp_matrix(kNarrow, *model_pinhole("road", 512), {0.01, -0.03, 0.02});
  const Matrix3f chroma = chroma_matrix(m);
  for (int x = 0; x < 512; x += 37) {
    for (int y = 0; y < 256; y += 23) {
      const auto luma = map(m, x, y);
      const auto half = map(chroma, x / 2.0, y / 2.0);
      EXPECT_NEAR(half[0], luma[0] / 2, 1e-3);
      EXPECT_NEAR(half[1], luma[1] / 2, 1e-3);
    }
  }
}

TEST(WarpMatrix, RefusesWhatIsNoCamera) {
  const Pinhole model = *model_pinhole("road", 512);
  EXPECT_FALSE(road_warp_matrix({0, 1, 2, 3}, model, {0, 0, 0}).ok());
  EXPECT_FALSE(road_warp_matrix(kNarrow, model, {0, std::nan(""), 0}).ok());
  EXPECT_FALSE(cabin_warp_matrix({1, std::numeric_limits<double>::infinity(), 0, 0}, model).ok());
  EXPECT_FALSE(inverse({1, 2, 3, 2, 4, 6, 0, 0, 1}).ok());
}

}  // namespace
}  // namespace modeld::models
