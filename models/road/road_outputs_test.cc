#include "models/road/road_outputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace modeld::road {
namespace {

using Slices = std::vector<bundle::SliceRow>;

struct Size {
  const char* name;
  size_t size;
};
constexpr Size kSizes[] = {
    {"plan", 990},       {"lane_lines", 528},    {"lane_lines_prob", 8},
    {"road_edges", 264}, {"lead", 144},          {"lead_prob", 3},
    {"pose", 12},        {"road_transform", 12}, {"wide_from_device_euler", 6},
    {"meta", 55},        {"desire_pred", 32},    {"desire_state", 8},
    {"action", 2},       {"hidden_state", 16}};

Slices slices(size_t lead = 144, const std::string& without = "") {
  Slices out;
  uint64_t end = 0;
  for (const Size& s : kSizes) {
    if (s.name == without) continue;
    const uint64_t size = std::string(s.name) == "lead" ? lead : s.size;
    out.push_back({s.name, end, end + size});
    end += size;
  }
  return out;
}

size_t total(const Slices& s) {
  return s.back().end;
}

std::vector<float> random_raw(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> raw(size);
  // Every eleventh number is extreme: far beyond the clamp at 11, and far below zero.
  for (size_t i = 0; i < size; ++i) raw[i] = normal(random) * (i % 11 == 0 ? 20.0f : 1.0f);
  return raw;
}

// The slow version: doubles, one definition per line of the hand-book's table.
class Slow {
 public:
  Slow(const Slices& slices, const std::vector<float>& raw) {
    for (const auto& s : slices)
      values_[s.name] = {raw.begin() + long(s.begin), raw.begin() + long(s.end)};
  }
  static double sigma(double x) { return std::exp(std::min(x, 11.0)); }
  static double sigmoid(double x) { return 1 / (1 + std::exp(std::min(-x, 11.0))); }
  const std::vector<double>& of(const std::string& name) const { return values_.at(name); }
  double softmax(const std::string& name, size_t i, size_t width) const {
    const size_t row = i / width * width;
    double highest = of(name)[row];
    for (size_t k = 0; k < width; ++k) highest = std::max(highest, of(name)[row + k]);
    double sum = 0;
    for (size_t k = 0; k < width; ++k) sum += std::exp(of(name)[row + k] - highest);
    return std::exp(of(name)[i] - highest) / sum;
  }

 private:
  std::map<std::string, std::vector<double>> values_;
};

void expect_close(double got, double wanted) {
  EXPECT_NEAR(got, wanted, 1e-5 * std::abs(wanted) + 1e-7);
}

template <size_t N>
void expect_gaussian(const Gaussian<N>& got, const std::vector<double>& raw) {
  ASSERT_EQ(raw.size(), 2 * N);
  for (size_t i = 0; i < N; ++i) {
    expect_close(got.mean[i], raw[i]);
    expect_close(got.sigma[i], Slow::sigma(raw[N + i]));
  }
}

TEST(RoadOutputs, EqualTheSlowDoubleVersion) {
  const Slices table = slices();
  const Result<RoadParser> parser = RoadParser::create(table, total(table));
  ASSERT_TRUE(parser.ok()) << parser.error().what;
  for (uint32_t seed = 0; seed < 25; ++seed) {
    const std::vector<float> raw = random_raw(total(table), seed);
    const Slow slow(table, raw);
    RoadOutputs out;
    const Status status = parser->parse(raw, out);
    ASSERT_TRUE(status.ok()) << status.error().what;
    expect_gaussian(out.plan, slow.of("plan"));
    expect_gaussian(out.lane_lines, slow.of("lane_lines"));
    expect_gaussian(out.road_edges, slow.of("road_edges"));
    expect_gaussian(out.leads, slow.of("lead"));
    expect_gaussian(out.pose, slow.of("pose"));
    expect_gaussian(out.road_transform, slow.of("road_transform"));
    expect_gaussian(out.wide_from_device_euler, slow.of("wide_from_device_euler"));
    for (size_t i = 0; i < 4; ++i) {
      expect_close(out.lane_line_probs[i], Slow::sigmoid(slow.of("lane_lines_prob")[2 * i + 1]));
    }
    for (size_t i = 0; i < 3; ++i)
      expect_close(out.lead_probs[i], Slow::sigmoid(slow.of("lead_prob")[i]));
    for (size_t i = 0; i < 55; ++i) expect_close(out.meta[i], Slow::sigmoid(slow.of("meta")[i]));
    for (size_t i = 0; i < 32; ++i)
      expect_close(out.desire_pred[i], slow.softmax("desire_pred", i, 8));
    for (size_t i = 0; i < 8; ++i)
      expect_close(out.desire_state[i], slow.softmax("desire_state", i, 8));
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(out.action[i], slow.of("action")[i]);
    EXPECT_TRUE(out.has_action);
  }
}

TEST(RoadOutputs, EachLeadTakesItsMostLikelyHypothesis) {
  const Slices table = slices(102);
  const Result<RoadParser> parser = RoadParser::create(table, total(table));
  ASSERT_TRUE(parser.ok()) << parser.error().what;
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const std::vector<float> raw = random_raw(total(table), 100 + seed);
    const Slow slow(table, raw);
    const std::vector<double>& lead = slow.of("lead");
    RoadOutputs out;
    ASSERT_TRUE(parser->parse(raw, out).ok());
    for (size_t k = 0; k < 3; ++k) {
      // Two rows of 24 means, 24 log-sigmas, 3 weights.
      const double first =
          std::exp(lead[48 + k]) / (std::exp(lead[48 + k]) + std::exp(lead[51 + 48 + k]));
      const size_t row = first > 0.5 ? 0 : 51;
      for (size_t i = 0; i < 24; ++i) {
        expect_close(out.leads.mean[k * 24 + i], lead[row + i]);
        expect_close(out.leads.sigma[k * 24 + i], Slow::sigma(lead[row + 24 + i]));
      }
    }
  }
}

TEST(RoadOutputs, RefusesEveryBadNumberEvenWhereParsingHidesIt) {
  const Slices table = slices();
  const RoadParser parser = *RoadParser::create(table, total(table));
  const std::vector<float> raw = random_raw(total(table), 7);
  RoadOutputs out;
  for (size_t i = 0; i < raw.size(); i += 3) {
    std::vector<float> broken = raw;
    broken[i] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(parser.parse(broken, out).ok()) << i;
  }
  // +Inf in a log-sigma and in a probability would come out as e^11 and 1.
  std::vector<float> hidden = raw;
  hidden[600] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(parser.parse(hidden, out).error().what, "road outputs: outputs[600] is inf");
  const std::vector<float> equal(raw.size(), 0.0f);
  EXPECT_EQ(parser.parse(equal, out).error().what,
            "road outputs: all " + std::to_string(raw.size()) + " numbers of outputs are 0");
  EXPECT_FALSE(parser.parse(std::span<const float>(raw).first(raw.size() - 1), out).ok());
}

TEST(RoadOutputs, ChecksSlicesWhenLoaded) {
  const Slices good = slices();
  EXPECT_EQ(RoadParser::create(slices(144, "meta"), total(good)).error().what,
            "output slices: no 'meta'");
  EXPECT_EQ(RoadParser::create(slices(143), total(good)).error().what,
            "output slices: 'lead' has 143 numbers, wanted 144 or 102");
  EXPECT_FALSE(RoadParser::create(good, 100).ok());
  Slices reversed = good;
  std::swap(reversed[0].begin, reversed[0].end);
  EXPECT_FALSE(RoadParser::create(reversed, total(good)).ok());

  const Slices old = slices(144, "action");
  const Result<RoadParser> parser = RoadParser::create(old, total(old));
  ASSERT_TRUE(parser.ok());
  RoadOutputs out;
  ASSERT_TRUE(parser->parse(random_raw(total(old), 1), out).ok());
  EXPECT_FALSE(out.has_action);
}

}  // namespace
}  // namespace modeld::road
