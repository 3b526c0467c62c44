// What the 256 patterns of each 8-bit float mean, written down from the formats' definitions (OCP
// 8-bit floating point 1.0; the fnuz forms as the handbook has them) and by nothing of the product:
// a value by its fields, narrowing by a search through all patterns. Threading: pure.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "runtime/ir/dtype.h"

namespace modeld::testing {

inline constexpr ir::DType kFloat8Types[] = {ir::DType::kF8E4M3, ir::DType::kF8E4M3Fnuz,
                                             ir::DType::kF8E5M2, ir::DType::kF8E5M2Fnuz};

inline double float8_value(ir::DType t, int bits) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool is_e4m3 = t == ir::DType::kF8E4M3 || t == ir::DType::kF8E4M3Fnuz;
  const bool is_fnuz = t == ir::DType::kF8E4M3Fnuz || t == ir::DType::kF8E5M2Fnuz;
  const double sign = bits >= 128 ? -1 : 1;
  const int exponent = is_e4m3 ? (bits >> 3) & 15 : (bits >> 2) & 31;
  const double fraction = is_e4m3 ? (bits & 7) / 8.0 : (bits & 3) / 4.0;
  if (is_fnuz && bits == 0x80) return kNan;
  if (t == ir::DType::kF8E4M3 && exponent == 15 && fraction == 0.875) return kNan;
  if (t == ir::DType::kF8E5M2 && exponent == 31) return fraction == 0 ? sign * kInfinity : kNan;
  const int bias = (is_e4m3 ? 7 : 15) + (is_fnuz ? 1 : 0);
  const double power = std::pow(2.0, (exponent == 0 ? 1 : exponent) - bias);
  return sign * power * (exponent == 0 ? fraction : 1 + fraction);
}

// The pattern of the nearest finite number, of two the one with an even mantissa; what is too large
// gets the largest. -1 for NaN: which pattern of it is nobody's promise.
inline int float8_nearest(ir::DType t, double v) {
  if (std::isnan(v)) return -1;
  int best = 0;  // of the magnitudes
  for (int bits = 1; bits < 128; ++bits) {
    const double value = float8_value(t, bits);
    if (!std::isfinite(value)) continue;
    const double from_low = std::fabs(v) - float8_value(t, best), from_high = value - std::fabs(v);
    const bool is_beyond = from_high <= 0;
    if (is_beyond || from_high < from_low || (from_high == from_low && bits % 2 == 0)) best = bits;
  }
  const bool is_fnuz = std::isnan(float8_value(t, 0x80));
  return best == 0 && is_fnuz ? 0 : best + (std::signbit(v) ? 128 : 0);
}

}  // namespace modeld::testing
