#include "models/cabin/cabin_model.h"

#include <array>
#include <cmath>

namespace modeld::cabin {

namespace {

using models::Stream;

constexpr Stream kStreams[] = {Stream::kCabin};

}  // namespace

std::span<const Stream> CabinModel::streams() const {
  return kStreams;
}

Result<std::unique_ptr<models::Model>> CabinModel::create(const bundle::Manifest& manifest,
                                                          exec::LoadedPlan& plan) {
  std::unique_ptr<CabinModel> model(new CabinModel());
  ASSIGN_OR_RETURN(model->core_, models::ModelCore::create(manifest, plan));
  models::ModelCore& core = *model->core_;
  ASSIGN_OR_RETURN(model->image_input_, core.find_input("input_img", 0));
  ASSIGN_OR_RETURN(model->calib_input_, core.find_input("calib", 3));
  ASSIGN_OR_RETURN(model->model_camera_, core.model_camera("cabin"));
  if (core.input_address(model->image_input_) == 0) {
    return fail(Errc::kInvalid, "cabin model: input 'input_img' is a state or taken in parts");
  }
  RETURN_IF_ERROR(core.check_warps("cabin", core.input_bytes(model->image_input_)));
  return std::unique_ptr<models::Model>(std::move(model));
}

Status CabinModel::stage(const models::FrameInputs& inputs) {
  core_->clear_warps();
  if (!inputs.vehicle.is_calibrated)
    return fail(Errc::kInvalid, "cabin model: the calibration is not known");
  const models::FrameView& frame = inputs.frames[static_cast<size_t>(Stream::kCabin)];
  ASSIGN_OR_RETURN(const models::Matrix3f matrix,
                   models::cabin_warp_matrix(frame.camera, model_camera_));
  std::array<float, 3> calib{};
  for (size_t i = 0; i < calib.size(); ++i) {
    calib[i] = static_cast<float>(inputs.vehicle.rpy[i]);
    if (!std::isfinite(calib[i]))
      return fail(Errc::kInvalid, strf("cabin model: calibration angle %g", double{calib[i]}));
  }
  RETURN_IF_ERROR(
      core_->stage_warp(Stream::kCabin, frame, matrix, core_->input_address(image_input_)));
  return core_->write_input(calib_input_, calib);
}

}  // namespace modeld::cabin
