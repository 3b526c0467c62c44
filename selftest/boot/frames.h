// A few camera frames in a device's memory, drawn once by the synthetic camera in the geometries a
// bundle has warps for: what a model is stepped with where no camera is. Contract: fixed pictures
// and vehicle inputs, the same everywhere; the buffers belong to this object and the device must
// outlive it. Threading: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "hal/device.h"

#include "models/model.h"

namespace modeld::selftest {

class Frames {
 public:
  // Pictures of the first geometry of each stream that the model takes.
  static Result<Frames> create(hal::Device& device, const models::Model& model, uint64_t count);
  models::FrameInputs inputs(uint64_t frame) const;  // frame modulo count

 private:
  std::array<std::vector<models::FrameView>, models::kStreams> views_;
  std::vector<hal::Buffer> memory_;
};

// What the daemon's worker does with one frame: stage, run, check, commit. kMismatch when the check
// refuses the output.
Status step(models::Model& model, const models::FrameInputs& inputs, Deadline deadline);

}  // namespace modeld::selftest
