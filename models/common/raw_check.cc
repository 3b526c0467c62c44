#include "models/common/raw_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "hal/base/status.h"

namespace modeld::models {

namespace {

constexpr uint32_t kExponent = 0x7f800000u;
constexpr uint32_t kHalfExponent = 0x7c00u;

uint32_t bad_mask(float value) {
  return (std::bit_cast<uint32_t>(value) & kExponent) == kExponent ? ~0U : 0U;
}

// Branch-free and in rows of a fixed width, which every compiler makes vector code of: the check of
// a large state stays cheap; the culprit is looked up afterwards.
bool all_finite(std::span<const float> values) {
  constexpr size_t kWidth = 16;
  std::array<uint32_t, kWidth> bad{};
  size_t i = 0;
  for (; i + kWidth <= values.size(); i += kWidth) {
    for (size_t k = 0; k < kWidth; ++k) bad[k] |= bad_mask(values[i + k]);
  }
  for (; i < values.size(); ++i) bad[0] |= bad_mask(values[i]);
  return std::all_of(bad.begin(), bad.end(), [](uint32_t b) { return b == 0; });
}

const char* half_word(uint16_t bits) {
  if ((bits & 0x3ffu) != 0) return "nan";
  return (bits & 0x8000u) != 0 ? "-inf" : "inf";
}

}  // namespace

Finding find_non_finite(std::span<const float> values, const char* name) {
  if (all_finite(values)) return {};
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return {false, strf("%s[%zu] is %s", name, i,
                        std::isnan(values[i]) ? "nan"
                        : values[i] > 0       ? "inf"
                                              : "-inf")};
  }
  return {};
}

Finding find_non_finite_half(std::span<const uint16_t> values, const char* name) {
  bool bad = false;
  for (const uint16_t value : values) bad |= (value & kHalfExponent) == kHalfExponent;
  if (!bad) return {};
  for (size_t i = 0; i < values.size(); ++i) {
    if ((values[i] & kHalfExponent) != kHalfExponent) continue;
    return {false, strf("%s[%zu] is %s", name, i, half_word(values[i]))};
  }
  return {};
}

Finding find_all_equal(std::span<const float> values, const char* name) {
  if (values.size() < 2) return {};
  for (const float value : values) {
    if (value != values[0]) return {};
  }
  return {false, strf("all %zu numbers of %s are %g", values.size(), name,
                      static_cast<double>(values[0]))};
}

}  // namespace modeld::models
