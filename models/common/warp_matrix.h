// Warp matrices: which camera pixel a pixel of the model's picture looks at.
// Contract: computed in double, rounded to float once at the end. K maps view axes (x right, y
// down, z forward) to pixels; V maps device axes (x forward, y right, z down) to view axes.
//   road, wide: M = K_cam V R(rpy) (K_model V)^-1      cabin: M = K_cam K_model^-1
// Units: pixels, radians. Threading: pure functions, no allocation.
#pragma once

#include <array>
#include <string_view>

#include "hal/base/status.h"

namespace modeld::models {

// Row-major 3x3.
using Matrix3d = std::array<double, 9>;
using Matrix3f = std::array<float, 9>;

struct Pinhole {
  double fx = 0;
  double fy = 0;
  double cx = 0;
  double cy = 0;
  bool operator==(const Pinhole&) const = default;
};

// The model's own camera for "road", "wide" or "cabin", scaled to a picture of `width` pixels (512,
// 512 and 1440 wide models have f = 910, 455 and 567). kNotFound for another stream.
Result<Pinhole> model_pinhole(std::string_view stream, uint32_t width);

// Device from calibrated frame: Rz(yaw) Ry(pitch) Rx(roll).
Matrix3d rotation_from_rpy(const std::array<double, 3>& rpy);

Matrix3d multiply(const Matrix3d& a, const Matrix3d& b);
// kInvalid when the determinant is zero or not finite.
Result<Matrix3d> inverse(const Matrix3d& m);

// kInvalid when a focal length is not positive, or anything is not finite.
Result<Matrix3f> road_warp_matrix(const Pinhole& camera,
                                  const Pinhole& model,
                                  const std::array<double, 3>& rpy);
Result<Matrix3f> cabin_warp_matrix(const Pinhole& camera, const Pinhole& model);

// The same map between the half-size chroma planes: last column of rows 0 and 1 halved, first two
// entries of row 2 doubled (both exact).
Matrix3f chroma_matrix(const Matrix3f& m);

}  // namespace modeld::models
