#include "models/road/road_outputs.h"

#include "models/common/mdn.h"
#include "models/common/raw_check.h"

namespace modeld::road {

namespace {

// leads: one hypothesis, or two of which each of the three outputs picks one.
constexpr size_t kLeadValues = 6 * 4;
constexpr size_t kLeads = 3;
constexpr size_t kLeadHypotheses = 2;
constexpr size_t kLeadSingle = 2 * kLeads * kLeadValues;
constexpr size_t kLeadMulti = kLeadHypotheses * (2 * kLeadValues + kLeads);

template <size_t N>
void parse(const models::Range& range, std::span<const float> raw, Gaussian<N>& out) {
  models::parse_gaussian(range.of(raw), out.mean, out.sigma);
}

Status refuse(const models::Finding& finding) {
  if (finding.is_good) return {};
  return fail(Errc::kInvalid, "road outputs: " + finding.text);
}

}  // namespace

Result<RoadParser> RoadParser::create(std::span<const bundle::SliceRow> slices, size_t raw_size) {
  RoadParser p;
  p.raw_size_ = raw_size;
  const auto find = [&](const char* name, std::initializer_list<size_t> sizes) {
    return models::find_slice(slices, name, sizes, raw_size);
  };
  ASSIGN_OR_RETURN(p.plan_, find("plan", {2 * kRows * 15}));
  ASSIGN_OR_RETURN(p.lane_lines_, find("lane_lines", {2 * 4 * kRows * 2}));
  ASSIGN_OR_RETURN(p.lane_lines_prob_, find("lane_lines_prob", {8}));
  ASSIGN_OR_RETURN(p.road_edges_, find("road_edges", {2 * 2 * kRows * 2}));
  ASSIGN_OR_RETURN(p.lead_, find("lead", {kLeadSingle, kLeadMulti}));
  ASSIGN_OR_RETURN(p.lead_prob_, find("lead_prob", {kLeads}));
  ASSIGN_OR_RETURN(p.pose_, find("pose", {12}));
  ASSIGN_OR_RETURN(p.road_transform_, find("road_transform", {12}));
  ASSIGN_OR_RETURN(p.wide_euler_, find("wide_from_device_euler", {6}));
  ASSIGN_OR_RETURN(p.meta_, find("meta", {55}));
  ASSIGN_OR_RETURN(p.desire_pred_, find("desire_pred", {32}));
  ASSIGN_OR_RETURN(p.desire_state_, find("desire_state", {8}));
  Result<models::Range> action = find("action", {2});
  if (action.ok()) {
    p.action_ = *action;
  } else if (action.error().code != Errc::kNotFound) {
    return fail(std::move(action).error());
  }
  return p;
}

Status RoadParser::parse(std::span<const float> raw, RoadOutputs& out) const {
  if (raw.size() != raw_size_) {
    return fail(Errc::kInvalid,
                strf("road outputs: %zu numbers, the model has %zu", raw.size(), raw_size_));
  }
  RETURN_IF_ERROR(refuse(models::find_non_finite(raw, "outputs")));
  RETURN_IF_ERROR(refuse(models::find_all_equal(raw, "outputs")));
  road::parse(plan_, raw, out.plan);
  road::parse(lane_lines_, raw, out.lane_lines);
  road::parse(road_edges_, raw, out.road_edges);
  road::parse(pose_, raw, out.pose);
  road::parse(road_transform_, raw, out.road_transform);
  road::parse(wide_euler_, raw, out.wide_from_device_euler);
  if (lead_.size == kLeadSingle) {
    road::parse(lead_, raw, out.leads);
  } else {
    models::parse_hypotheses(lead_.of(raw), kLeadHypotheses, kLeads, out.leads.mean,
                             out.leads.sigma);
  }
  // Every second number of the lane line slice is the probability.
  for (size_t i = 0; i < out.lane_line_probs.size(); ++i) {
    out.lane_line_probs[i] = models::sigmoid_of(lane_lines_prob_.of(raw)[2 * i + 1]);
  }
  models::parse_sigmoid(lead_prob_.of(raw), out.lead_probs);
  models::parse_sigmoid(meta_.of(raw), out.meta);
  models::parse_softmax(desire_pred_.of(raw), 8, out.desire_pred);
  models::parse_softmax(desire_state_.of(raw), 8, out.desire_state);
  out.has_action = action_.size != 0;
  out.action = {};
  for (size_t i = 0; i < action_.size; ++i) out.action[i] = action_.of(raw)[i];
  return check_parsed(out);
}

Status RoadParser::check_parsed(const RoadOutputs& out) const {
  const auto check = [](const auto& values, const char* name) {
    return refuse(models::find_non_finite(values, name));
  };
  const auto check_both = [&](const auto& gaussian, const char* name) -> Status {
    RETURN_IF_ERROR(check(gaussian.mean, name));
    return check(gaussian.sigma, name);
  };
  RETURN_IF_ERROR(check_both(out.plan, "plan"));
  RETURN_IF_ERROR(check_both(out.lane_lines, "lane_lines"));
  RETURN_IF_ERROR(check(out.lane_line_probs, "lane_line_probs"));
  RETURN_IF_ERROR(check_both(out.road_edges, "road_edges"));
  RETURN_IF_ERROR(check_both(out.leads, "leads"));
  RETURN_IF_ERROR(check(out.lead_probs, "lead_probs"));
  RETURN_IF_ERROR(check_both(out.pose, "pose"));
  RETURN_IF_ERROR(check_both(out.road_transform, "road_transform"));
  RETURN_IF_ERROR(check_both(out.wide_from_device_euler, "wide_from_device_euler"));
  RETURN_IF_ERROR(check(out.meta, "meta"));
  RETURN_IF_ERROR(check(out.desire_pred, "desire_pred"));
  RETURN_IF_ERROR(check(out.desire_state, "desire_state"));
  return check(out.action, "action");
}

}  // namespace modeld::road
