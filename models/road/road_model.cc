#include "models/road/road_model.h"

#include <cmath>

namespace modeld::road {

namespace {

using models::Stream;

constexpr Stream kStreams[] = {Stream::kRoad, Stream::kWide};

}  // namespace

std::span<const Stream> RoadModel::streams() const {
  return kStreams;
}

Result<std::unique_ptr<models::Model>> RoadModel::create(const bundle::Manifest& manifest,
                                                         exec::LoadedPlan& plan) {
  std::unique_ptr<RoadModel> model(new RoadModel());
  ASSIGN_OR_RETURN(model->core_, models::ModelCore::create(manifest, plan));
  RETURN_IF_ERROR(model->add_history(Stream::kRoad, "img"));
  RETURN_IF_ERROR(model->add_history(Stream::kWide, "big_img"));
  RETURN_IF_ERROR(model->find_inputs());
  return std::unique_ptr<models::Model>(std::move(model));
}

Status RoadModel::add_history(Stream stream, const char* input) {
  const bundle::SplitInput* split = nullptr;
  for (const bundle::SplitInput& row : core_->manifest().splits) {
    if (row.name == input) split = &row;
  }
  if (split == nullptr || split->parts.empty()) {
    return fail(Errc::kInvalid, strf("road model: input '%s' is not taken in parts", input));
  }
  History& history = histories_[history_count_++];
  history.stream = stream;
  history.parts = split->parts;
  ASSIGN_OR_RETURN(history.model, core_->model_camera(models::stream_name(stream)));
  const uint64_t bytes = core_->input_bytes(history.parts[0]);
  RETURN_IF_ERROR(core_->check_warps(models::stream_name(stream), bytes));
  // The pictures of the parts are kFrameSkip frames apart.
  history.ring.resize((history.parts.size() - 1) * kFrameSkip + 1);
  for (hal::Buffer& picture : history.ring) {
    ASSIGN_OR_RETURN(picture, core_->make_buffer(bytes));
  }
  return {};
}

Status RoadModel::find_inputs() {
  ASSIGN_OR_RETURN(desire_input_, core_->find_input("desire_pulse", kHistoryRows * kDesires));
  ASSIGN_OR_RETURN(traffic_input_, core_->find_input("traffic_convention", 2));
  ASSIGN_OR_RETURN(action_input_, core_->find_input("action_t", 2));
  return {};
}

Status RoadModel::stage(const models::FrameInputs& inputs) {
  core_->clear_warps();
  if (!inputs.vehicle.is_calibrated)
    return fail(Errc::kInvalid, "road model: the calibration is not known");
  for (const History& history : histories_) RETURN_IF_ERROR(stage_history(history, inputs));
  return stage_vehicle(inputs.vehicle);
}

Status RoadModel::stage_history(const History& history, const models::FrameInputs& inputs) {
  const models::FrameView& frame = inputs.frames[static_cast<size_t>(history.stream)];
  ASSIGN_OR_RETURN(const models::Matrix3f matrix,
                   models::road_warp_matrix(frame.camera, history.model, inputs.vehicle.rpy));
  const size_t places = history.ring.size();
  RETURN_IF_ERROR(
      core_->stage_warp(history.stream, frame, matrix, history.ring[frame_ % places].addr()));
  for (size_t part = 0; part < history.parts.size(); ++part) {
    // The newest part is this frame; before the history is full the places still hold zeroes.
    const size_t age = (history.parts.size() - 1 - part) * kFrameSkip;
    core_->bind_input(history.parts[part], history.ring[(frame_ + places - age) % places]);
  }
  return {};
}

Status RoadModel::stage_vehicle(const models::VehicleState& vehicle) {
  const std::array<float, 2> action = {vehicle.lateral_action_time,
                                       vehicle.longitudinal_action_time};
  for (const float value : action) {
    if (!std::isfinite(value))
      return fail(Errc::kInvalid, strf("road model: action time %g", double{value}));
  }
  for (const float value : vehicle.desire) {
    if (!std::isfinite(value))
      return fail(Errc::kInvalid, strf("road model: desire %g", double{value}));
  }
  desires_.push(vehicle.desire);
  std::array<float, kHistoryRows * kDesires> rows{};
  desires_.history(rows);
  RETURN_IF_ERROR(core_->write_input(desire_input_, rows));
  RETURN_IF_ERROR(
      core_->write_input(traffic_input_, traffic_convention(vehicle.is_right_hand_drive)));
  return core_->write_input(action_input_, action);
}

void RoadModel::commit() {
  core_->commit();
  ++frame_;
}

Status RoadModel::reset() {
  frame_ = 0;
  desires_.reset();
  for (const History& history : histories_) {
    for (const hal::Buffer& picture : history.ring) RETURN_IF_ERROR(core_->zero(picture));
  }
  return core_->reset();
}

}  // namespace modeld::road
