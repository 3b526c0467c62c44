// 8-bit floats, every pattern of every format, against their definition.
#include "runtime/ir/narrow_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "runtime/ir/graph.h"
#include "runtime/ir/symbolic.h"

#include "selftest/testing/float8_truth.h"

namespace modeld::ir {
namespace {

using testing::float8_nearest;
using testing::float8_value;
using testing::kFloat8Types;

TEST(Float8, EveryPatternIsItsFields) {
  for (const DType t : kFloat8Types) {
    SCOPED_TRACE(dtype_name(t));
    for (int bits = 0; bits < 256; ++bits) {
      const auto got = static_cast<double>(from_narrow_bits(t, static_cast<uint16_t>(bits)));
      const double want = float8_value(t, bits);
      ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << bits;
      if (!std::isnan(want)) {
        ASSERT_EQ(std::signbit(got), std::signbit(want)) << bits;
      }
    }
  }
}

TEST(Float8, LimitsAreThoseOfTheFormats) {
  const auto largest = [](DType t) { return from_narrow_bits(t, float8_format(t)->max_bits); };
  EXPECT_EQ(largest(DType::kF8E4M3), 448);
  EXPECT_EQ(largest(DType::kF8E4M3Fnuz), 240);
  EXPECT_EQ(largest(DType::kF8E5M2), 57344);
  EXPECT_EQ(largest(DType::kF8E5M2Fnuz), 57344);
  EXPECT_EQ(from_narrow_bits(DType::kF8E4M3, 1), 0x1p-9F);
  EXPECT_EQ(from_narrow_bits(DType::kF8E4M3Fnuz, 1), 0x1p-10F);
  EXPECT_EQ(from_narrow_bits(DType::kF8E5M2, 1), 0x1p-16F);
  EXPECT_EQ(from_narrow_bits(DType::kF8E5M2Fnuz, 1), 0x1p-17F);
  EXPECT_EQ(float8_format(DType::kF16), nullptr);
  EXPECT_EQ(float8_format(DType::kU8), nullptr);
}

TEST(Float8, PatternsOfNumbersComeBack) {
  for (const DType t : kFloat8Types) {
    for (int bits = 0; bits < 256; ++bits) {
      const double v = float8_value(t, bits);
      if (std::isfinite(v)) {
        EXPECT_EQ(to_narrow_bits(t, v), bits) << dtype_name(t);
      }
    }
  }
}

// Each number, each middle between two, and what lies a hair beside them.
TEST(Float8, NarrowingTakesTheNearestAndOfTwoTheEven) {
  std::mt19937 rng(8);
  for (const DType t : kFloat8Types) {
    SCOPED_TRACE(dtype_name(t));
    std::vector<double> in = {1e300, -1e300, 1e-300, -1e-300, 0.0, -0.0, INFINITY, -INFINITY};
    for (int bits = 0; bits < 256; ++bits) {
      const double v = float8_value(t, bits), next = float8_value(t, bits ^ 1);
      if (!std::isfinite(v) || !std::isfinite(next)) continue;
      const double up =
          std::isfinite(float8_value(t, bits + 1)) ? float8_value(t, bits + 1) : 2 * v;
      for (const double at : {v, (v + next) / 2, (v + up) / 2})
        in.insert(in.end(), {at, std::nextafter(at, 1e9), std::nextafter(at, -1e9)});
    }
    for (int k = 0; k < 20000; ++k)
      in.push_back(
          std::ldexp(static_cast<double>(rng()) - 0x1p31, static_cast<int>(rng() % 44) - 56));
    for (const double v : in) ASSERT_EQ(to_narrow_bits(t, v), float8_nearest(t, v)) << v;
    EXPECT_TRUE(std::isnan(from_narrow_bits(t, to_narrow_bits(t, NAN))));
    EXPECT_TRUE(std::isnan(from_narrow_bits(t, to_narrow_bits(t, -NAN))));
  }
}

TEST(Float8, PromotesToHalvesAndStandsForEveryPlainNumber) {
  for (const DType t : kFloat8Types) {
    EXPECT_TRUE(is_float(t) && is_narrow_float(t));
    EXPECT_EQ(item_size(t), 1);
    EXPECT_EQ(dtype_from_name(dtype_name(t)), t);
    EXPECT_EQ(least_upper(t, DType::kWeakFloat), t);
    EXPECT_EQ(least_upper(t, DType::kI64), t);
    EXPECT_EQ(least_upper(t, DType::kF16), DType::kF16);
    EXPECT_EQ(least_upper(t, DType::kBF16), DType::kBF16);
    EXPECT_EQ(sum_dtype(t), DType::kF32);
    for (const DType other : kFloat8Types)
      EXPECT_EQ(least_upper(t, other), t == other ? t : DType::kF16);
  }
}

TEST(Float8, ConstantsRestateTheirValue) {
  Graph g;
  EXPECT_EQ(const_float(g, 1000, DType::kF8E4M3), const_float(g, 448, DType::kF8E4M3));
  EXPECT_EQ(const_float(g, 0.3, DType::kF8E5M2), const_float(g, 0.3125, DType::kF8E5M2));
  EXPECT_EQ(const_float(g, -0.0, DType::kF8E5M2Fnuz), const_float(g, 0.0, DType::kF8E5M2Fnuz));
  EXPECT_NE(const_float(g, -0.0, DType::kF8E5M2), const_float(g, 0.0, DType::kF8E5M2));
}

// A cast there and back vanishes only where nothing is lost.
TEST(Float8, WideningAndNarrowingAgainIsNothing) {
  Graph g;
  const Node* i = range(g, 4, 0, AxisType::kWeak);
  for (const DType t : kFloat8Types) {
    const Node* x = g.make(Op::kIndex, t, {param(g, 0, t, 4), i});
    for (const DType wide : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64})
      EXPECT_EQ(simplify(g, cast(g, cast(g, x, wide), t)), x) << dtype_name(wide);
    const Node* half = g.make(Op::kIndex, DType::kF16, {param(g, 1, DType::kF16, 4), i});
    EXPECT_NE(simplify(g, cast(g, cast(g, half, t), DType::kF16)), half) << dtype_name(t);
  }
}

}  // namespace
}  // namespace modeld::ir
