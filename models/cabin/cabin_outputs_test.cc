#include "models/cabin/cabin_outputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace modeld::cabin {
namespace {

constexpr const char* kNames[] = {"face_prob",        "left_eye_prob",    "right_eye_prob",
                                  "left_blink_prob",  "right_blink_prob", "sunglasses_prob",
                                  "using_phone_prob", "sleep_prob"};

// Sides in the order of the argument, so that nothing depends on where a slice lies.
std::vector<bundle::SliceRow> slices(std::vector<std::string> sides) {
  std::vector<bundle::SliceRow> out;
  uint64_t end = 0;
  const auto add = [&](const std::string& name, uint64_t size) {
    out.push_back({name, end, end + size});
    end += size;
  };
  add("wheel_on_right_prob", 1);
  for (const std::string& side : sides) {
    for (const char* name : kNames) add(name + side, 1);
    add("face_descs" + side, 12);
  }
  return out;
}

TEST(CabinOutputs, EqualTheSlowDoubleVersion) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(std::min(-x, 11.0))); };
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 9);
  for (const bool swapped : {false, true}) {
    const auto table = slices(swapped ? std::vector<std::string>{"_rhd", "_lhd"}
                                      : std::vector<std::string>{"_lhd", "_rhd"});
    const Result<CabinParser> parser = CabinParser::create(table, 41);
    ASSERT_TRUE(parser.ok()) << parser.error().what;
    for (int round = 0; round < 50; ++round) {
      std::vector<float> raw(41);
      for (float& value : raw) value = normal(random);
      CabinOutputs out;
      ASSERT_TRUE(parser->parse(raw, out).ok());
      EXPECT_NEAR(out.wheel_on_right_prob, sigmoid(raw[0]), 1e-6);
      const std::pair<const CabinSide*, size_t> sides[] = {{&out.lhd, swapped ? 21 : 1},
                                                           {&out.rhd, swapped ? 1 : 21}};
      for (const auto& [side, at] : sides) {
        const float probabilities[] = {side->face_prob,        side->left_eye_prob,
                                       side->right_eye_prob,   side->left_blink_prob,
                                       side->right_blink_prob, side->sunglasses_prob,
                                       side->using_phone_prob, side->sleep_prob};
        for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(probabilities[i], sigmoid(raw[at + i]), 1e-6);
        for (size_t i = 0; i < 6; ++i) {
          EXPECT_EQ(side->face_mean[i], raw[at + 8 + i]);
          const double sigma = std::exp(std::min(double{raw[at + 14 + i]}, 11.0));
          EXPECT_NEAR(side->face_sigma[i], sigma, 1e-5 * sigma);
        }
      }
    }
  }
}

TEST(CabinOutputs, RefusesBadNumbersAndMissingSlices) {
  const auto table = slices({"_lhd", "_rhd"});
  const CabinParser parser = *CabinParser::create(table, 41);
  std::vector<float> raw(41);
  for (size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<float>(i) * 0.1f;
  CabinOutputs out;
  ASSERT_TRUE(parser.parse(raw, out).ok());
  for (size_t i = 0; i < raw.size(); ++i) {
    std::vector<float> broken = raw;
    broken[i] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(parser.parse(broken, out).ok()) << i;
  }
  EXPECT_EQ(parser.parse(std::vector<float>(41, 1.0f), out).error().what,
            "cabin outputs: all 41 numbers of outputs are 1");
  EXPECT_FALSE(parser.parse(std::vector<float>(40, 1.0f), out).ok());
  EXPECT_EQ(CabinParser::create(slices({"_lhd"}), 41).error().what,
            "output slices: no 'face_descs_rhd'");
}

}  // namespace
}  // namespace modeld::cabin
