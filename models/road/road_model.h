// The road model on a device: two cameras, image history, desire history, recurrent features.
// Contract: models/model.h. History: the last five warped pictures per stream stay on the device;
// picture t is written to place t % 5 and the model gets the pictures (t-4, t) by address. States,
// pictures and desires reset together. Units and threading: models/model.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "models/common/model_core.h"
#include "models/model.h"
#include "models/road/road_inputs.h"

namespace modeld::road {

class RoadModel final : public models::Model {
 public:
  static Result<std::unique_ptr<models::Model>> create(const bundle::Manifest& manifest,
                                                       exec::LoadedPlan& plan);

  bundle::Role role() const override { return bundle::Role::kRoad; }
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
  void commit() override;
  Status reset() override;
  models::RunTimes times() const override { return core_->times(); }

 private:
  // Pictures of one stream on the device.
  struct History {
    models::Stream stream = models::Stream::kRoad;
    models::Pinhole model;
    std::vector<uint32_t> parts;  // inputs of entry run, oldest first
    std::vector<hal::Buffer> ring;
  };

  RoadModel() = default;
  Status add_history(models::Stream stream, const char* input);
  Status find_inputs();
  Status stage_history(const History& history, const models::FrameInputs& inputs);
  Status stage_vehicle(const models::VehicleState& vehicle);

  std::unique_ptr<models::ModelCore> core_;
  std::array<History, 2> histories_;
  size_t history_count_ = 0;
  uint64_t frame_ = 0;  // since the last reset
  DesireHistory desires_;
  uint32_t desire_input_ = 0, traffic_input_ = 0, action_input_ = 0;
};

}  // namespace modeld::road
