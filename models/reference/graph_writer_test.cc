#include "models/reference/graph_writer.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace modeld::reference {
namespace {

// What a half means, straight from its definition.
double half_value(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31)
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(HalfFromFloat, GivesBackEveryFiniteHalf) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const double value = half_value(half);
    if (std::isnan(value)) continue;
    EXPECT_EQ(half_from_float(static_cast<float>(value)), half);
  }
}

TEST(HalfFromFloat, RoundsToTheNearestAndTiesToEven) {
  for (uint32_t bits = 0; bits + 1 < 0x7c00; ++bits) {
    const double low = half_value(static_cast<uint16_t>(bits));
    const double high = half_value(static_cast<uint16_t>(bits + 1));
    const float middle = static_cast<float>((low + high) / 2);
    const auto even = static_cast<uint16_t>(bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(half_from_float(middle), even) << bits;
    ASSERT_EQ(half_from_float(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(half_from_float(std::nextafter(middle, 1e9f)), bits + 1) << bits;
  }
}

TEST(HalfFromFloat, OverflowsToInfinityAndKeepsNan) {
  EXPECT_EQ(half_from_float(65519.0f), 0x7bff);
  EXPECT_EQ(half_from_float(65520.0f), 0x7c00);
  EXPECT_EQ(half_from_float(-1e30f), 0xfc00);
  EXPECT_EQ(half_from_float(std::numeric_limits<float>::quiet_NaN()) & 0x7fff, 0x7e00);
}

TEST(GraphWriter, CountsMultiplyAccumulatesOfAStridedGroupedConvolution) {
  GraphWriter g("g", Elem::kF32, 1);
  const Value x = g.input("x", {1, 8, 9, 7}, Elem::kF32);
  const Value y =
      g.conv("c", x, {.out_channels = 16, .kernel = 3, .stride = 2, .padding = 1, .groups = 4});
  EXPECT_EQ(y.dims, (Dims{1, 16, 5, 4}));
  g.output("y", y);
  const Result<ReferenceModel> model = g.finish({}, 0);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->mac, 16u * 5 * 4 * 2 * 9);
  EXPECT_EQ(model->flops(), 2 * model->mac);
}

TEST(GraphWriter, WeightsHaveTheAskedDeviationAndMean) {
  GraphWriter g("g", Elem::kF32, 7);
  g.weight("w", {100, 1000}, 0.25, 1.5);
  const Result<ReferenceModel> model = g.finish({}, 0);
  ASSERT_TRUE(model.ok());
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(model->onnx));
  const std::string& raw = proto.graph().initializer(0).raw_data();
  ASSERT_EQ(raw.size(), 400000u);
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < raw.size(); i += 4) {
    float value = 0;
    std::memcpy(&value, raw.data() + i, 4);
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const double mean = sum / 1e5;
  EXPECT_NEAR(mean, 1.5, 0.005);
  EXPECT_NEAR(std::sqrt(squares / 1e5 - mean * mean), 0.25, 0.005);
}

}  // namespace
}  // namespace modeld::reference
