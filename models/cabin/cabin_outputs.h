// The cabin model's raw output vector as named numbers for both seats, checked.
// Contract: as RoadParser (models/road/road_outputs.h): slices are resolved at load; parse()
// refuses numbers that are not finite or all equal. Units: rad, m, probabilities. Threading:
// parse() is const, no allocation when it succeeds.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "hal/base/status.h"

#include "models/bundle/manifest.h"
#include "models/common/slices.h"

namespace modeld::cabin {

struct CabinSide {
  std::array<float, 6> face_mean{};  // orientation 3, position 2, size 1
  std::array<float, 6> face_sigma{};
  float face_prob = 0;
  float left_eye_prob = 0;
  float right_eye_prob = 0;
  float left_blink_prob = 0;
  float right_blink_prob = 0;
  float sunglasses_prob = 0;
  float using_phone_prob = 0;
  float sleep_prob = 0;
};

struct CabinOutputs {
  CabinSide lhd;  // driver on the left
  CabinSide rhd;
  float wheel_on_right_prob = 0;
};

class CabinParser final {
 public:
  // kInvalid or kNotFound names the slice.
  static Result<CabinParser> create(std::span<const bundle::SliceRow> slices, size_t raw_size);
  size_t raw_size() const { return raw_size_; }
  Status parse(std::span<const float> raw, CabinOutputs& out) const;

 private:
  static constexpr size_t kProbabilities = 8;
  struct SideRanges {
    models::Range face;
    std::array<models::Range, kProbabilities> probabilities;
  };
  CabinParser() = default;
  Status parse_side(const SideRanges& ranges,
                    std::span<const float> raw,
                    const char* name,
                    CabinSide& out) const;

  size_t raw_size_ = 0;
  SideRanges lhd_, rhd_;
  models::Range wheel_;
};

}  // namespace modeld::cabin
