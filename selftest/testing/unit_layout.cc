#include "selftest/testing/unit_layout.h"

namespace modeld::testing {

namespace {

using Place = std::pair<int64_t, int64_t>;

// gfx11: lanes 16..31 repeat 0..15; a result register holds two rows, one per half of the wave.
constexpr UnitLayout kRdna3 = {16,
                               16,
                               16,
                               32,
                               16,
                               16,
                               [](int64_t lane, int64_t e) {
                                 return Place{lane % 16, e};
                               },
                               [](int64_t lane, int64_t e) {
                                 return Place{e, lane % 16};
                               },
                               [](int64_t lane, int64_t e) {
                                 return Place{2 * e + lane / 16, lane % 16};
                               }};

// gfx12: each half of the wave holds eight steps and eight rows.
constexpr UnitLayout kRdna4 = {16,
                               16,
                               16,
                               32,
                               8,
                               8,
                               [](int64_t lane, int64_t e) {
                                 return Place{lane % 16, e + 8 * (lane / 16)};
                               },
                               [](int64_t lane, int64_t e) {
                                 return Place{e + 8 * (lane / 16), lane % 16};
                               },
                               [](int64_t lane, int64_t e) {
                                 return Place{e + 8 * (lane / 16), lane % 16};
                               }};

// VPDPBUSD: four neighbouring bytes per 32-bit result.
constexpr UnitLayout kDotBytes = {16,
                                  1,
                                  4,
                                  1,
                                  4,
                                  64,
                                  [](int64_t, int64_t e) {
                                    return Place{0, e};
                                  },
                                  [](int64_t, int64_t e) {
                                    return Place{e % 4, e / 4};
                                  },
                                  [](int64_t, int64_t e) {
                                    return Place{0, e};
                                  }};

// VDPBF16PS: two neighbouring halves per result.
constexpr UnitLayout kDotHalves = {16,
                                   1,
                                   2,
                                   1,
                                   2,
                                   32,
                                   [](int64_t, int64_t e) {
                                     return Place{0, e};
                                   },
                                   [](int64_t, int64_t e) {
                                     return Place{e % 2, e / 2};
                                   },
                                   [](int64_t, int64_t e) {
                                     return Place{0, e};
                                   }};

// AMX tiles: A and C by rows; B in groups of four bytes (two halves) of one column.
constexpr UnitLayout kAmxBytes = {16,
                                  16,
                                  64,
                                  1,
                                  1024,
                                  1024,
                                  [](int64_t, int64_t e) {
                                    return Place{e / 64, e % 64};
                                  },
                                  [](int64_t, int64_t e) {
                                    return Place{e % 64, e / 64};
                                  },
                                  [](int64_t, int64_t e) {
                                    return Place{e / 16, e % 16};
                                  }};
constexpr UnitLayout kAmxHalves = {16,
                                   16,
                                   32,
                                   1,
                                   512,
                                   512,
                                   [](int64_t, int64_t e) {
                                     return Place{e / 32, e % 32};
                                   },
                                   [](int64_t, int64_t e) {
                                     return Place{e % 32, e / 32};
                                   },
                                   [](int64_t, int64_t e) {
                                     return Place{e / 16, e % 16};
                                   }};

}  // namespace

std::optional<UnitLayout> unit_layout(std::string_view core) {
  if (core.starts_with("rdna3_")) return kRdna3;
  if (core.starts_with("rdna4_")) return kRdna4;
  if (core == "avx512_u8_i8" || core == "avx512_i8_u8") return kDotBytes;
  if (core == "avx512_bf16") return kDotHalves;
  if (core == "amx_u8_i8") return kAmxBytes;
  if (core == "amx_bf16") return kAmxHalves;
  return std::nullopt;
}

}  // namespace modeld::testing
