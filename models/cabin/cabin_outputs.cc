#include "models/cabin/cabin_outputs.h"

#include <string>

#include "models/common/mdn.h"
#include "models/common/raw_check.h"

namespace modeld::cabin {

namespace {

constexpr size_t kFaceNumbers = 12;

// Slice name without its side, and where the number goes.
struct Probability {
  const char* slice;
  float CabinSide::*field;
};
constexpr Probability kTable[] = {{"face_prob", &CabinSide::face_prob},
                                  {"left_eye_prob", &CabinSide::left_eye_prob},
                                  {"right_eye_prob", &CabinSide::right_eye_prob},
                                  {"left_blink_prob", &CabinSide::left_blink_prob},
                                  {"right_blink_prob", &CabinSide::right_blink_prob},
                                  {"sunglasses_prob", &CabinSide::sunglasses_prob},
                                  {"using_phone_prob", &CabinSide::using_phone_prob},
                                  {"sleep_prob", &CabinSide::sleep_prob}};

Status refuse(const models::Finding& finding) {
  if (finding.is_good) return {};
  return fail(Errc::kInvalid, "cabin outputs: " + finding.text);
}

}  // namespace

Result<CabinParser> CabinParser::create(std::span<const bundle::SliceRow> slices, size_t raw_size) {
  static_assert(std::size(kTable) == kProbabilities);
  CabinParser p;
  p.raw_size_ = raw_size;
  const std::pair<const char*, SideRanges*> sides[] = {{"_lhd", &p.lhd_}, {"_rhd", &p.rhd_}};
  for (const auto& [suffix, ranges] : sides) {
    ASSIGN_OR_RETURN(ranges->face, models::find_slice(slices, std::string("face_descs") + suffix,
                                                      {kFaceNumbers}, raw_size));
    for (size_t i = 0; i < kProbabilities; ++i) {
      ASSIGN_OR_RETURN(
          ranges->probabilities[i],
          models::find_slice(slices, std::string(kTable[i].slice) + suffix, {1}, raw_size));
    }
  }
  ASSIGN_OR_RETURN(p.wheel_, models::find_slice(slices, "wheel_on_right_prob", {1}, raw_size));
  return p;
}

Status CabinParser::parse(std::span<const float> raw, CabinOutputs& out) const {
  if (raw.size() != raw_size_) {
    return fail(Errc::kInvalid,
                strf("cabin outputs: %zu numbers, the model has %zu", raw.size(), raw_size_));
  }
  RETURN_IF_ERROR(refuse(models::find_non_finite(raw, "outputs")));
  RETURN_IF_ERROR(refuse(models::find_all_equal(raw, "outputs")));
  RETURN_IF_ERROR(parse_side(lhd_, raw, "lhd", out.lhd));
  RETURN_IF_ERROR(parse_side(rhd_, raw, "rhd", out.rhd));
  out.wheel_on_right_prob = models::sigmoid_of(raw[wheel_.begin]);
  return refuse(models::find_non_finite({&out.wheel_on_right_prob, 1}, "wheel_on_right_prob"));
}

Status CabinParser::parse_side(const SideRanges& ranges,
                               std::span<const float> raw,
                               const char* name,
                               CabinSide& out) const {
  models::parse_gaussian(ranges.face.of(raw), out.face_mean, out.face_sigma);
  RETURN_IF_ERROR(refuse(models::find_non_finite(out.face_mean, name)));
  RETURN_IF_ERROR(refuse(models::find_non_finite(out.face_sigma, name)));
  for (size_t i = 0; i < kProbabilities; ++i) {
    float& value = out.*kTable[i].field;
    value = models::sigmoid_of(raw[ranges.probabilities[i].begin]);
    RETURN_IF_ERROR(refuse(models::find_non_finite({&value, 1}, name)));
  }
  return {};
}

}  // namespace modeld::cabin
