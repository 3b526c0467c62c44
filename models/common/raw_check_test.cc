#include "models/common/raw_check.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace modeld::models {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(RawCheck, FindsOneBadNumberAtAnyPlace) {
  std::vector<float> values(67, 1.5f);
  values[3] = -std::numeric_limits<float>::max();
  EXPECT_TRUE(find_non_finite(values, "outputs").is_good);
  for (size_t i = 0; i < values.size(); ++i) {
    for (const float bad : {kNan, -kNan, kInf, -kInf}) {
      std::vector<float> broken = values;
      broken[i] = bad;
      EXPECT_FALSE(find_non_finite(broken, "outputs").is_good);
    }
  }
  values[17] = kNan;
  EXPECT_EQ(find_non_finite(values, "outputs").text, "outputs[17] is nan");
  values[17] = -kInf;
  EXPECT_EQ(find_non_finite(values, "outputs").text, "outputs[17] is -inf");
}

TEST(RawCheck, ReadsHalvesByTheirBits) {
  std::vector<uint16_t> values = {0, 0x3c00, 0x7bff, 0xfbff, 0x0001};
  EXPECT_TRUE(find_non_finite_half(values, "state").is_good);
  values[4] = 0x7c00;
  EXPECT_EQ(find_non_finite_half(values, "state").text, "state[4] is inf");
  values[4] = 0xfc00;
  EXPECT_EQ(find_non_finite_half(values, "state").text, "state[4] is -inf");
  values[4] = 0x7e01;
  EXPECT_EQ(find_non_finite_half(values, "state").text, "state[4] is nan");
}

TEST(RawCheck, AllEqualIsSuspiciousUnlessThereIsOneNumber) {
  EXPECT_TRUE(find_all_equal(std::vector<float>{2}, "outputs").is_good);
  EXPECT_TRUE(find_all_equal(std::vector<float>{}, "outputs").is_good);
  EXPECT_TRUE(find_all_equal(std::vector<float>{2, 2, 2.5}, "outputs").is_good);
  EXPECT_EQ(find_all_equal(std::vector<float>{2, 2, 2}, "outputs").text,
            "all 3 numbers of outputs are 2");
  EXPECT_FALSE(find_all_equal(std::vector<float>{0.0f, -0.0f, 0.0f}, "outputs").is_good);
}

}  // namespace
}  // namespace modeld::models
