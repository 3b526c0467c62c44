#include "runtime/ir/narrow_float.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace modeld::ir {
namespace {

// OCP 8-bit floating point specification 1.0 (e4m3, e5m2); the fnuz forms have a bias of one more,
// one NaN in the place of negative zero, and no infinity.
constexpr Float8 kE4M3{3, 7, 0x7e, 0x7f, false, false};
constexpr Float8 kE4M3Fnuz{3, 8, 0x7f, 0x80, false, true};
constexpr Float8 kE5M2{2, 15, 0x7b, 0x7e, true, false};
constexpr Float8 kE5M2Fnuz{2, 16, 0x7f, 0x80, false, true};

float magnitude(const Float8& f, int bits) {
  const int exponent = bits >> f.mantissa_bits;
  const int mantissa = bits & ((1 << f.mantissa_bits) - 1);
  const int whole = exponent == 0 ? mantissa : mantissa + (1 << f.mantissa_bits);
  return std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - f.bias - f.mantissa_bits);
}

float from_float8(const Float8& f, uint8_t bits) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (f.is_unsigned_zero && bits == f.nan_bits) return kNan;
  const int low = bits & 0x7f;
  float v = magnitude(f, low);
  if (low > f.max_bits)
    v = f.has_infinity && low == f.max_bits + 1 ? std::numeric_limits<float>::infinity() : kNan;
  return (bits & 0x80) != 0 ? -v : v;
}

uint8_t to_float8(const Float8& f, double v) {
  const uint8_t sign = std::signbit(v) ? 0x80 : 0;
  if (std::isnan(v)) return f.is_unsigned_zero ? f.nan_bits : sign | f.nan_bits;
  const double a = std::min<double>(std::fabs(v), magnitude(f, f.max_bits));
  int exponent = 0;
  if (a == 0) return f.is_unsigned_zero ? 0 : sign;
  std::frexp(a, &exponent);
  // In units of the last place of its binade, which ends with the denormals'.
  const int unit = std::max(exponent - 1, 1 - f.bias) - f.mantissa_bits;
  const auto whole = static_cast<int>(std::nearbyint(std::ldexp(a, -unit)));
  const int low = whole + ((unit + f.mantissa_bits + f.bias - 1) << f.mantissa_bits);
  return low == 0 && f.is_unsigned_zero ? 0 : static_cast<uint8_t>(sign | low);
}

}  // namespace

const Float8* float8_format(DType t) {
  switch (t) {
    case DType::kF8E4M3:
      return &kE4M3;
    case DType::kF8E4M3Fnuz:
      return &kE4M3Fnuz;
    case DType::kF8E5M2:
      return &kE5M2;
    case DType::kF8E5M2Fnuz:
      return &kE5M2Fnuz;
    default:
      return nullptr;
  }
}

bool is_narrow_float(DType t) {
  return t == DType::kF16 || t == DType::kBF16 || float8_format(t) != nullptr;
}

uint16_t to_narrow_bits(DType t, double v) {
  if (const Float8* f = float8_format(t)) return to_float8(*f, v);
  const auto single = static_cast<float>(round_to(t, v));
  return t == DType::kF16 ? f32_to_f16_bits(single) : f32_to_bf16_bits(single);
}

float from_narrow_bits(DType t, uint16_t bits) {
  if (const Float8* f = float8_format(t)) return from_float8(*f, static_cast<uint8_t>(bits));
  return t == DType::kF16 ? f16_bits_to_f32(bits) : bf16_bits_to_f32(bits);
}

}  // namespace modeld::ir
