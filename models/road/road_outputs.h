// The road model's raw output vector as named numbers (means and sigmas), checked.
// Contract: create() resolves and checks every slice once, at load; parse() trusts nothing in the
// vector: it refuses one with a number that is not finite, one whose numbers are all equal, and a
// parsed number that is not finite. Units: m, m/s, m/s2, rad; time of row i: 10 (i/32)^2 s.
// Threading: parse() is const and does not allocate when it succeeds.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "hal/base/status.h"

#include "models/bundle/manifest.h"
#include "models/common/slices.h"

namespace modeld::road {

template <size_t N>
struct Gaussian {
  std::array<float, N> mean{};
  std::array<float, N> sigma{};
};

inline constexpr size_t kRows = 33;

struct RoadOutputs {
  Gaussian<kRows * 15> plan;  // 33 x (position 3, velocity 3, acceleration 3, euler 3, rate 3)
  Gaussian<4 * kRows * 2> lane_lines;  // 4 x 33 x (y, z)
  std::array<float, 4> lane_line_probs{};
  Gaussian<2 * kRows * 2> road_edges;  // 2 x 33 x (y, z)
  Gaussian<3 * 6 * 4> leads;           // 3 x 6 x (x, y, v, a)
  std::array<float, 3> lead_probs{};
  Gaussian<6> pose;
  Gaussian<6> road_transform;
  Gaussian<3> wide_from_device_euler;
  std::array<float, 55> meta{};
  std::array<float, 32> desire_pred{};  // 4 x 8
  std::array<float, 8> desire_state{};
  std::array<float, 2> action{};
  bool has_action = false;  // older models have no such slice
};

class RoadParser final {
 public:
  // kInvalid names the missing slice, or the one whose size fits no known meaning.
  static Result<RoadParser> create(std::span<const bundle::SliceRow> slices, size_t raw_size);
  size_t raw_size() const { return raw_size_; }
  Status parse(std::span<const float> raw, RoadOutputs& out) const;

 private:
  RoadParser() = default;
  Status check_parsed(const RoadOutputs& out) const;

  size_t raw_size_ = 0;
  models::Range plan_, lane_lines_, lane_lines_prob_, road_edges_, lead_, lead_prob_, pose_,
      road_transform_, wide_euler_, meta_, desire_pred_, desire_state_, action_;
};

}  // namespace modeld::road
