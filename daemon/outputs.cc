#include "daemon/outputs.h"

#include <algorithm>
#include <optional>

#include "models/cabin/cabin_outputs.h"
#include "models/road/road_outputs.h"

#include "ipc/publisher.h"

#include "daemon/hop.h"

namespace modeld::daemon {
namespace {

template <size_t N>
void copy(const road::Gaussian<N>& from, ipc::Mdn<N>& to) {
  to.mean = from.mean;
  to.std = from.sigma;
}

void fill(const road::RoadOutputs& o, ipc::RoadMessage& m) {
  copy(o.plan, m.plan);
  copy(o.lane_lines, m.lane_lines);
  m.lane_line_probs = o.lane_line_probs;
  copy(o.road_edges, m.road_edges);
  copy(o.leads, m.leads);
  m.lead_probs = o.lead_probs;
  copy(o.pose, m.pose);
  copy(o.road_transform, m.road_transform);
  copy(o.wide_from_device_euler, m.wide_from_device_euler);
  m.meta = o.meta;
  m.desire_pred = o.desire_pred;
  m.desire_state = o.desire_state;
  m.action = o.action;
  m.has_action = o.has_action;
}

void fill(const cabin::CabinSide& o, ipc::CabinSide& m) {
  m.face.mean = o.face_mean;
  m.face.std = o.face_sigma;
  m.face_prob = o.face_prob;
  m.left_eye_prob = o.left_eye_prob;
  m.right_eye_prob = o.right_eye_prob;
  m.left_blink_prob = o.left_blink_prob;
  m.right_blink_prob = o.right_blink_prob;
  m.sunglasses_prob = o.sunglasses_prob;
  m.using_phone_prob = o.using_phone_prob;
  m.sleep_prob = o.sleep_prob;
}

void fill(const cabin::CabinOutputs& o, ipc::CabinMessage& m) {
  fill(o.lhd, m.lhd);
  fill(o.rhd, m.rhd);
  m.wheel_on_right_prob = o.wheel_on_right_prob;
}

void set_frames(const RunReport& r, ipc::RoadMessage& m) {
  m.road_frame_id = r.frame_id;
  m.wide_frame_id = r.wide_frame_id;
}
void set_frames(const RunReport& r, ipc::CabinMessage& m) {
  m.cabin_frame_id = r.frame_id;
}

template <class Parser, class Outputs, class Message>
class Topic final : public OutputTopic {
 public:
  Topic(ipc::Publisher& publisher, bool with_raw) : publisher_(publisher), with_raw_(with_raw) {
    if (with_raw_) valid_.raw.reserve(kMaxRawFloats);
    valid_.raw.clear();
  }

  Status bind(std::span<const bundle::SliceRow> slices, size_t raw_size) override {
    ASSIGN_OR_RETURN(Parser parser, Parser::create(slices, raw_size));
    parser_.emplace(std::move(parser));
    return {};
  }

  Status parse(std::span<const float> raw) override {
    if (!parser_) return fail(Errc::kInternal, "outputs: no model bound");
    RETURN_IF_ERROR(parser_->parse(raw, outputs_));
    fill(outputs_, valid_);
    return {};
  }

  Status publish(const RunReport& report, std::span<const float> raw) override {
    Message& m = report.header.valid ? valid_ : zeros_;
    m.header = report.header;
    set_frames(report, m);
    m.timings = report.timings;
    m.run = report.run;
    m.vehicle = report.vehicle;
    m.frame_drop_percent = report.frame_drop_percent;
    // A warming model's accepted runs are part of a recording, though nobody may act on them.
    if (with_raw_) m.raw.assign(raw.begin(), raw.end());
    return publisher_.publish(m);
  }

  int64_t last_latency_ns() const override { return publisher_.last_latency_ns(); }

 private:
  ipc::Publisher& publisher_;
  bool with_raw_;
  std::optional<Parser> parser_;
  Outputs outputs_;
  Message valid_;
  Message zeros_;
};

}  // namespace

Result<std::unique_ptr<OutputTopic>> make_output_topic(const std::string& role,
                                                       ipc::Publisher& publisher,
                                                       bool with_raw) {
  if (role == "road")
    return std::make_unique<Topic<road::RoadParser, road::RoadOutputs, ipc::RoadMessage>>(publisher,
                                                                                          with_raw);
  if (role == "cabin")
    return std::make_unique<Topic<cabin::CabinParser, cabin::CabinOutputs, ipc::CabinMessage>>(
        publisher, with_raw);
  return fail(Errc::kInvalid, "outputs: no topic for role " + role);
}

}  // namespace modeld::daemon
