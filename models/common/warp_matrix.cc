#include "models/common/warp_matrix.h"

#include <cmath>

namespace modeld::models {

namespace {

// View from device axes: view x = device y, view y = device z, view z = device x.
constexpr Matrix3d kViewFromDevice = {0, 1, 0, 0, 0, 1, 1, 0, 0};

struct Known {
  std::string_view stream;
  double width;
  double f, cx, cy;
};
// The pictures the driving models were designed for.
constexpr Known kKnown[] = {
    {"road", 512, 910, 256, 47.6}, {"wide", 512, 455, 256, 151.8}, {"cabin", 1440, 567, 720, 356}};

bool is_usable(const Pinhole& p) {
  return std::isfinite(p.fx) && std::isfinite(p.fy) && std::isfinite(p.cx) && std::isfinite(p.cy) &&
         p.fx > 0 && p.fy > 0;
}

Matrix3d projection(const Pinhole& p) {
  return {p.fx, 0, p.cx, 0, p.fy, p.cy, 0, 0, 1};
}

Result<Matrix3f> narrow(const Matrix3d& m) {
  Matrix3f out{};
  for (size_t i = 0; i < m.size(); ++i) {
    out[i] = static_cast<float>(m[i]);
    if (!std::isfinite(out[i]))
      return fail(Errc::kInvalid, strf("warp matrix: entry %zu is %g", i, m[i]));
  }
  return out;
}

Status check(const Pinhole& camera, const Pinhole& model) {
  for (const Pinhole& p : {camera, model}) {
    if (!is_usable(p)) {
      return fail(Errc::kInvalid,
                  strf("warp matrix: intrinsics fx %g fy %g cx %g cy %g are not a camera", p.fx,
                       p.fy, p.cx, p.cy));
    }
  }
  return {};
}

}  // namespace

Result<Pinhole> model_pinhole(std::string_view stream, uint32_t width) {
  for (const Known& known : kKnown) {
    if (known.stream != stream) continue;
    const double scale = width / known.width;
    return Pinhole{known.f * scale, known.f * scale, known.cx * scale, known.cy * scale};
  }
  return fail(Errc::kNotFound, strf("model intrinsics: no stream '%.*s'",
                                    static_cast<int>(stream.size()), stream.data()));
}

Matrix3d rotation_from_rpy(const std::array<double, 3>& rpy) {
  const double cr = std::cos(rpy[0]);
  const double sr = std::sin(rpy[0]);
  const double cp = std::cos(rpy[1]);
  const double sp = std::sin(rpy[1]);
  const double cy = std::cos(rpy[2]);
  const double sy = std::sin(rpy[2]);
  return {cy * cp,
          cy * sp * sr - sy * cr,
          cy * sp * cr + sy * sr,
          sy * cp,
          sy * sp * sr + cy * cr,
          sy * sp * cr - cy * sr,
          -sp,
          cp * sr,
          cp * cr};
}

Matrix3d multiply(const Matrix3d& a, const Matrix3d& b) {
  Matrix3d out{};
  for (size_t row = 0; row < 3; ++row) {
    for (size_t column = 0; column < 3; ++column) {
      for (size_t k = 0; k < 3; ++k) out[row * 3 + column] += a[row * 3 + k] * b[k * 3 + column];
    }
  }
  return out;
}

Result<Matrix3d> inverse(const Matrix3d& m) {
  // Adjugate over determinant.
  const Matrix3d cofactors = {
      m[4] * m[8] - m[5] * m[7], m[2] * m[7] - m[1] * m[8], m[1] * m[5] - m[2] * m[4],
      m[5] * m[6] - m[3] * m[8], m[0] * m[8] - m[2] * m[6], m[2] * m[3] - m[0] * m[5],
      m[3] * m[7] - m[4] * m[6], m[1] * m[6] - m[0] * m[7], m[0] * m[4] - m[1] * m[3]};
  const double determinant = m[0] * cofactors[0] + m[1] * cofactors[3] + m[2] * cofactors[6];
  if (determinant == 0 || !std::isfinite(determinant)) {
    return fail(Errc::kInvalid, strf("warp matrix: determinant %g has no inverse", determinant));
  }
  Matrix3d out{};
  for (size_t i = 0; i < out.size(); ++i) out[i] = cofactors[i] / determinant;
  return out;
}

Result<Matrix3f> road_warp_matrix(const Pinhole& camera,
                                  const Pinhole& model,
                                  const std::array<double, 3>& rpy) {
  RETURN_IF_ERROR(check(camera, model));
  for (const double angle : rpy) {
    if (!std::isfinite(angle))
      return fail(Errc::kInvalid, strf("warp matrix: calibration angle %g", angle));
  }
  const Matrix3d model_from_calib = multiply(projection(model), kViewFromDevice);
  ASSIGN_OR_RETURN(const Matrix3d calib_from_model, inverse(model_from_calib));
  const Matrix3d camera_from_device = multiply(projection(camera), kViewFromDevice);
  const Matrix3d camera_from_calib = multiply(camera_from_device, rotation_from_rpy(rpy));
  return narrow(multiply(camera_from_calib, calib_from_model));
}

Result<Matrix3f> cabin_warp_matrix(const Pinhole& camera, const Pinhole& model) {
  RETURN_IF_ERROR(check(camera, model));
  ASSIGN_OR_RETURN(const Matrix3d view_from_model, inverse(projection(model)));
  return narrow(multiply(projection(camera), view_from_model));
}

Matrix3f chroma_matrix(const Matrix3f& m) {
  Matrix3f out = m;
  out[2] *= 0.5f;
  out[5] *= 0.5f;
  out[6] *= 2.0f;
  out[7] *= 2.0f;
  return out;
}

}  // namespace modeld::models
