#include "models/road/road_inputs.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace modeld::road {
namespace {

using Desire = std::array<float, kDesires>;
using Rows = std::array<float, kHistoryRows * kDesires>;

Desire one_hot(size_t i) {
  Desire d{};
  d[i] = 1;
  return d;
}

Rows history_of(const DesireHistory& h) {
  Rows out{};
  h.history(out);
  return out;
}

TEST(DesireHistory, OnlyTheRisingEdgeIsAPulse) {
  DesireHistory h;
  h.push(one_hot(0));
  h.push(one_hot(3));
  EXPECT_EQ(history_of(h)[24 * kDesires + 3], 1);
  for (int i = 0; i < 4; ++i) h.push(one_hot(3));  // held: no new pulse
  const Rows rows = history_of(h);
  EXPECT_EQ(rows[24 * kDesires + 3], 0);
  EXPECT_EQ(rows[23 * kDesires + 3], 1);
}

TEST(DesireHistory, NoDesireNeverPulsesAndASmallRiseDoesNot) {
  DesireHistory h;
  h.push(one_hot(0));
  Desire half{};
  half[2] = 0.99f;
  h.push(half);
  EXPECT_EQ(history_of(h), Rows{});
}

TEST(DesireHistory, APulseLeavesAfterHundredFrames) {
  DesireHistory h;
  h.push(one_hot(4));
  for (int i = 0; i < 99; ++i) h.push(one_hot(0));
  EXPECT_EQ(history_of(h)[4], 1);
  h.push(one_hot(0));
  EXPECT_EQ(history_of(h), Rows{});
}

TEST(DesireHistory, ResetForgetsThePreviousVectorToo) {
  DesireHistory h;
  h.push(one_hot(5));
  h.reset();
  EXPECT_EQ(history_of(h), Rows{});
  h.push(one_hot(5));
  EXPECT_EQ(history_of(h)[24 * kDesires + 5], 1);
}

// Against the definition: keep every vector of the drive and look at the last hundred.
TEST(DesireHistory, MatchesTheWholeHistory) {
  std::mt19937 random(11);
  DesireHistory h;
  std::vector<Desire> all(100);  // pulses; a hundred empty frames before the start
  Desire previous{};
  for (int frame = 0; frame < 700; ++frame) {
    const Desire desire = one_hot(random() % kDesires);
    Desire pulse{};
    for (size_t i = 1; i < kDesires; ++i)
      pulse[i] = desire[i] - previous[i] > 0.99f ? desire[i] : 0;
    previous = desire;
    all.push_back(pulse);
    h.push(desire);
    const Rows rows = history_of(h);
    for (size_t row = 0; row < kHistoryRows; ++row) {
      for (size_t i = 0; i < kDesires; ++i) {
        float highest = 0;
        for (size_t k = 0; k < 4; ++k)
          highest = std::max(highest, all[all.size() - 100 + row * 4 + k][i]);
        ASSERT_EQ(rows[row * kDesires + i], highest) << frame;
      }
    }
  }
}

TEST(TrafficConvention, LeftHandDriveComesFirst) {
  EXPECT_EQ(traffic_convention(false), (std::array<float, 2>{1, 0}));
  EXPECT_EQ(traffic_convention(true), (std::array<float, 2>{0, 1}));
}

}  // namespace
}  // namespace modeld::road
