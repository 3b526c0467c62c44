#include "runtime/ir/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "hal/base/check.h"

#include "runtime/ir/narrow_float.h"

namespace modeld::ir {
namespace {

struct Row {
  const char* name;
  int bits;
  int64_t min;
  int64_t max;
};

constexpr int64_t kI64Min = std::numeric_limits<int64_t>::min();
constexpr int64_t kI64Max = std::numeric_limits<int64_t>::max();

constexpr std::array<Row, kDTypeCount> kRows = {{
    {"void", 0, 0, 0},
    {"weakint", 64, kI64Min, kI64Max},
    {"bool", 8, 0, 1},
    {"i8", 8, -128, 127},
    {"u8", 8, 0, 255},
    {"i16", 16, -32768, 32767},
    {"u16", 16, 0, 65535},
    {"i32", 32, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()},
    {"u32", 32, 0, std::numeric_limits<uint32_t>::max()},
    {"i64", 64, kI64Min, kI64Max},
    {"u64", 64, 0, kI64Max},
    {"weakfloat", 64, kI64Min, kI64Max},
    {"f16", 16, kI64Min, kI64Max},
    {"bf16", 16, kI64Min, kI64Max},
    {"f32", 32, kI64Min, kI64Max},
    {"f64", 64, kI64Min, kI64Max},
    {"f8e4m3", 8, kI64Min, kI64Max},
    {"f8e4m3fnuz", 8, kI64Min, kI64Max},
    {"f8e5m2", 8, kI64Min, kI64Max},
    {"f8e5m2fnuz", 8, kI64Min, kI64Max},
}};

const Row& row(DType t) {
  return kRows[static_cast<size_t>(t)];
}

// Direct edges of the promotion lattice; bit i set = edge to dtype i.
constexpr uint32_t bit(DType t) {
  return uint32_t{1} << static_cast<int>(t);
}

constexpr uint32_t edges(DType t) {
  switch (t) {
    case DType::kBool:
      return bit(DType::kWeakInt);
    case DType::kWeakInt:
      return bit(DType::kI8) | bit(DType::kU8);
    case DType::kI8:
      return bit(DType::kI16);
    case DType::kI16:
      return bit(DType::kI32);
    case DType::kI32:
      return bit(DType::kI64);
    case DType::kI64:
      return bit(DType::kWeakFloat);
    case DType::kU8:
      return bit(DType::kI16) | bit(DType::kU16);
    case DType::kU16:
      return bit(DType::kI32) | bit(DType::kU32);
    case DType::kU32:
      return bit(DType::kI64) | bit(DType::kU64);
    case DType::kU64:
      return bit(DType::kWeakFloat);
    case DType::kWeakFloat:
      return bit(DType::kF8E4M3) | bit(DType::kF8E4M3Fnuz) | bit(DType::kF8E5M2) |
             bit(DType::kF8E5M2Fnuz);
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz:
    case DType::kF8E5M2:
    case DType::kF8E5M2Fnuz:
      return bit(DType::kF16) | bit(DType::kBF16);
    case DType::kF16:
    case DType::kBF16:
      return bit(DType::kF32);
    case DType::kF32:
      return bit(DType::kF64);
    default:
      return 0;
  }
}

uint32_t ancestors(DType t) {
  uint32_t seen = bit(t);
  for (bool grew = true; grew;) {
    grew = false;
    for (int i = 0; i < kDTypeCount; ++i) {
      if (!((seen >> i) & 1)) continue;
      const uint32_t next = seen | edges(static_cast<DType>(i));
      grew = grew || next != seen;
      seen = next;
    }
  }
  return seen;
}

}  // namespace

const char* dtype_name(DType t) {
  return row(t).name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (name == kRows[static_cast<size_t>(i)].name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int item_bits(DType t) {
  return row(t).bits;
}
bool is_float(DType t) {
  return t >= DType::kWeakFloat;
}
bool is_int(DType t) {
  return t == DType::kWeakInt || (t >= DType::kI8 && t <= DType::kU64);
}
bool is_weak(DType t) {
  return t == DType::kWeakInt || t == DType::kWeakFloat;
}

bool is_unsigned(DType t) {
  return t == DType::kBool || t == DType::kU8 || t == DType::kU16 || t == DType::kU32 ||
         t == DType::kU64;
}

DType least_upper(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::kVoid || b == DType::kVoid) return a == DType::kVoid ? b : a;
  // The lattice's topological order; the first common ancestor in it is the smallest.
  static constexpr std::array<DType, 19> kOrder = {
      DType::kBool,      DType::kWeakInt, DType::kI8,         DType::kU8,     DType::kI16,
      DType::kU16,       DType::kI32,     DType::kU32,        DType::kI64,    DType::kU64,
      DType::kWeakFloat, DType::kF8E4M3,  DType::kF8E4M3Fnuz, DType::kF8E5M2, DType::kF8E5M2Fnuz,
      DType::kF16,       DType::kBF16,    DType::kF32,        DType::kF64};
  const uint32_t common = ancestors(a) & ancestors(b);
  for (DType t : kOrder) {
    if (common & bit(t)) return t;
  }
  return DType::kF64;
}

DType sum_dtype(DType t) {
  if (t == DType::kWeakInt || t == DType::kWeakFloat) return t;
  if (is_float(t)) return least_upper(t, DType::kF32);
  if (t != DType::kBool && is_unsigned(t)) return least_upper(t, DType::kU32);
  return least_upper(t, DType::kI32);
}

DType strong(DType t) {
  if (t == DType::kWeakInt) return DType::kI32;
  if (t == DType::kWeakFloat) return DType::kF32;
  return t;
}

int64_t int_min(DType t) {
  return row(t).min;
}
int64_t int_max(DType t) {
  return row(t).max;
}

double round_to(DType t, double v) {
  switch (t) {
    case DType::kF32:
      return static_cast<double>(static_cast<float>(v));
    case DType::kF16: {
      // One rounding only: through f32 could round twice, so do it on the double's own grid.
      if (!std::isfinite(v) || v == 0) return v;
      int exp = 0;
      std::frexp(v, &exp);
      const int quantum = std::max(exp - 11, -24);
      const double r = std::ldexp(std::nearbyint(std::ldexp(v, -quantum)), quantum);
      if (std::fabs(r) >= 65520.0) return std::copysign(std::numeric_limits<double>::infinity(), v);
      return r == 0 ? std::copysign(0.0, v) : r;
    }
    case DType::kBF16: {
      if (!std::isfinite(v) || v == 0) return v;
      int exp = 0;
      std::frexp(v, &exp);
      const int quantum = std::max(exp - 8, -133);
      const double r = std::ldexp(std::nearbyint(std::ldexp(v, -quantum)), quantum);
      if (std::fabs(r) >= std::ldexp(1.0, 128))
        return std::copysign(std::numeric_limits<double>::infinity(), v);
      return r == 0 ? std::copysign(0.0, v) : r;
    }
    default:
      return is_narrow_float(t) ? static_cast<double>(from_narrow_bits(t, to_narrow_bits(t, v)))
                                : v;
  }
}

int64_t wrap_to(DType t, int64_t v) {
  switch (t) {
    case DType::kBool:
      return v != 0;
    case DType::kI8:
      return static_cast<int8_t>(v);
    case DType::kU8:
      return static_cast<uint8_t>(v);
    case DType::kI16:
      return static_cast<int16_t>(v);
    case DType::kU16:
      return static_cast<uint16_t>(v);
    case DType::kI32:
      return static_cast<int32_t>(v);
    case DType::kU32:
      return static_cast<uint32_t>(v);
    default:
      return v;
  }
}

uint16_t f32_to_f16_bits(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const double r = round_to(DType::kF16, static_cast<double>(v));
  if (std::isnan(r)) return static_cast<uint16_t>(sign | 0x7e00);
  const double a = std::fabs(r);
  if (std::isinf(a)) return static_cast<uint16_t>(sign | 0x7c00);
  if (a == 0) return sign;
  int exp = 0;
  std::frexp(a, &exp);
  if (exp - 1 < -14) return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::ldexp(a, 24)));
  const auto mantissa = static_cast<uint16_t>(std::ldexp(a, 11 - exp) - 1024.0);
  return static_cast<uint16_t>(sign | static_cast<uint16_t>((exp - 1 + 15) << 10) | mantissa);
}

float f16_bits_to_f32(uint16_t bits) {
  const int exp = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  float v = 0;
  if (exp == 31) {
    v = mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  } else if (exp == 0) {
    v = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    v = std::ldexp(static_cast<float>(mantissa + 1024), exp - 25);
  }
  return (bits & 0x8000) ? -v : v;
}

uint16_t f32_to_bf16_bits(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  if (std::isnan(v)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float bf16_bits_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace modeld::ir
