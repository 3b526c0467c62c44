// Small road and cabin models made by hand on the null device: real buffers, slots and order of
// calls, and kernels that are functions of the test. Warps are done by the scalar version. This is
// not a model: `on_run` decides what entry run writes. Contract: pictures are NV12 of
// kSampleCamera* pixels. Units: pixels, bytes. Threading: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hal/device.h"

#include "runtime/exec/loaded_plan.h"

#include "models/bundle/manifest.h"
#include "models/model.h"

namespace modeld::models {

inline constexpr uint32_t kSampleCameraWidth = 40;
inline constexpr uint32_t kSampleCameraHeight = 24;
inline constexpr uint32_t kSampleModelWidth = 16;
inline constexpr uint32_t kSampleModelHeight = 8;
inline constexpr size_t kSampleFeatures = 4;  // features_buffer is (1, 2, 4)

// Slots of entry run as the kernel sees them, by tensor name.
class SampleRun {
 public:
  SampleRun(const exec::Entry& entry, std::span<const uint64_t> slots)
      : entry_(entry), slots_(slots) {}
  template <class T>
  const T* in(const std::string& name) const {
    return reinterpret_cast<const T*>(slots_[entry_.find_input(name)->slot]);
  }
  template <class T>
  T* out(const std::string& name) const {
    return reinterpret_cast<T*>(slots_[entry_.find_output(name)->slot]);
  }

 private:
  const exec::Entry& entry_;
  std::span<const uint64_t> slots_;
};

struct SampleModel {
  bundle::Manifest manifest;
  std::function<void(const SampleRun&)> on_run;
  std::vector<std::string> labels;  // of every submission, in order
  std::unique_ptr<hal::Device> device;
  std::unique_ptr<exec::LoadedPlan> plan;
  std::unique_ptr<Model> model;
};

// Inputs img and big_img in two parts each, desire_pulse, traffic_convention, action_t,
// features_buffer; outputs `outputs` of 64 numbers and next_features_buffer; all floats of type
// `dtype`.
bundle::Manifest sample_road_manifest(ir::DType dtype = ir::DType::kF32);
// Inputs input_img, calib; outputs `outputs` of 8 numbers.
bundle::Manifest sample_cabin_manifest();

// Device and plan for the manifest (kept by reference: the sample does not move); `model` is left
// to the caller.
Result<std::unique_ptr<SampleModel>> load_sample(bundle::Manifest manifest);

// A picture whose luma and chroma bytes are all `value`.
struct SamplePicture {
  SamplePicture();
  void fill(uint8_t value);
  uint8_t* luma() { return start; }
  FrameView view(uint64_t frame_id) const;

  std::vector<uint8_t> memory;
  uint8_t* start = nullptr;  // 64-byte aligned
  static constexpr uint32_t kStride = 64;
  static constexpr uint32_t kUvOffset = kStride * 32;
  static constexpr uint32_t kBytes = kUvOffset + kStride * kSampleCameraHeight / 2;
};

}  // namespace modeld::models
