// The cabin model on a device: one camera's luma and the calibration; no state.
// Contract, units, threading: models/model.h.
#pragma once

#include <cstdint>
#include <memory>

#include "models/common/model_core.h"
#include "models/model.h"

namespace modeld::cabin {

class CabinModel final : public models::Model {
 public:
  static Result<std::unique_ptr<models::Model>> create(const bundle::Manifest& manifest,
                                                       exec::LoadedPlan& plan);

  bundle::Role role() const override { return bundle::Role::kCabin; }
  std::span<const models::Stream> streams() const override;
  std::span<const bundle::SliceRow> slices() const override { return core_->manifest().slices; }
  std::span<const bundle::GeometryRow> geometries() const override {
    return core_->manifest().geometries;
  }
  uint32_t context_frames() const override { return core_->manifest().context_frames; }
  size_t raw_size() const override { return core_->raw().size(); }
  Status stage(const models::FrameInputs& inputs) override;
  Status run(Deadline deadline) override { return core_->run(deadline); }
  Result<models::Finding> check(Deadline deadline) override { return core_->check(deadline); }
  std::span<const float> raw() const override { return core_->raw(); }
  Status visit_tensors(const models::TensorVisitor& visit, Deadline deadline) override {
    return core_->visit_tensors(visit, deadline);
  }
  void commit() override { core_->commit(); }
  Status reset() override { return core_->reset(); }
  models::RunTimes times() const override { return core_->times(); }

 private:
  CabinModel() = default;

  std::unique_ptr<models::ModelCore> core_;
  models::Pinhole model_camera_;
  uint32_t image_input_ = 0, calib_input_ = 0;
};

}  // namespace modeld::cabin
