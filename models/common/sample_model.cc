#include "models/common/sample_model.h"

#include <algorithm>
#include <cstring>

#include "hal/backends.h"
#include "hal/base/check.h"

#include "models/common/scalar_warp.h"

namespace modeld::models {

namespace {

using ir::DType;

// Tensors and scalars get their slots in the order of the calls.
class EntryMaker {
 public:
  explicit EntryMaker(std::string name) { entry_.name = std::move(name); }
  uint32_t input(const std::string& name, DType dtype, std::vector<int64_t> dims) {
    entry_.inputs.push_back(tensor(name, dtype, std::move(dims)));
    return static_cast<uint32_t>(entry_.inputs.size() - 1);
  }
  uint32_t output(const std::string& name, DType dtype, std::vector<int64_t> dims) {
    entry_.outputs.push_back(tensor(name, dtype, std::move(dims)));
    return static_cast<uint32_t>(entry_.outputs.size() - 1);
  }
  void scalar(const std::string& name, int64_t vmin, int64_t vmax) {
    entry_.scalars.push_back({name, vmin, vmax, next_++});
  }
  exec::Entry take() { return std::move(entry_); }

 private:
  exec::TensorInfo tensor(const std::string& name, DType dtype, std::vector<int64_t> dims) {
    uint64_t bytes = static_cast<uint64_t>(ir::item_size(dtype));
    for (const int64_t dim : dims) bytes *= static_cast<uint64_t>(dim);
    return {name, dtype, std::move(dims), bytes, next_++};
  }
  exec::Entry entry_;
  uint32_t next_ = 0;
};

void add_warp(bundle::Manifest& m, const std::string& stream, std::vector<int64_t> image) {
  EntryMaker entry("warp/" + stream);
  entry.input("nv12", DType::kU8, {SamplePicture::kBytes});
  entry.input("matrix", DType::kF32, {3, 3});
  entry.output("image", DType::kU8, std::move(image));
  entry.scalar("stride", 2, 1024);
  entry.scalar("uv_offset", 4, 1 << 20);
  m.geometries.push_back({stream, kSampleCameraWidth, kSampleCameraHeight,
                          static_cast<uint32_t>(m.plan.entries.size())});
  m.plan.entries.push_back(entry.take());
  // The model's picture is the middle of the camera's: a shift by whole pixels.
  m.intrinsics.push_back({stream, kSampleModelWidth, kSampleModelHeight, 100, 8, 4});
}

Nv12View view_of(const exec::Entry& entry, std::span<const uint64_t> slots) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(slots[entry.find_input("nv12")->slot]);
  return {{bytes, SamplePicture::kBytes},
          kSampleCameraWidth,
          kSampleCameraHeight,
          static_cast<uint32_t>(slots[entry.scalars[0].slot]),
          static_cast<uint32_t>(slots[entry.scalars[1].slot])};
}

void run_warp(const exec::Entry& entry, std::span<const uint64_t> slots) {
  Matrix3f m{};
  std::memcpy(m.data(), reinterpret_cast<const void*>(slots[entry.find_input("matrix")->slot]),
              sizeof m);
  const exec::TensorInfo& image = *entry.find_output("image");
  const std::span<uint8_t> out(reinterpret_cast<uint8_t*>(slots[image.slot]), image.bytes);
  const auto warp = entry.name == "warp/cabin" ? scalar_cabin_warp : scalar_road_warp;
  CHECK(warp(view_of(entry, slots), m, kSampleModelWidth, kSampleModelHeight, out).ok());
}

}  // namespace

bundle::Manifest sample_road_manifest(DType dtype) {
  bundle::Manifest m;
  m.role = bundle::Role::kRoad;
  EntryMaker run("run");
  const std::vector<int64_t> picture = {1, 6, kSampleModelHeight / 2, kSampleModelWidth / 2};
  for (const char* name : {"img", "big_img"}) {
    bundle::SplitInput split{name, {1, 12, picture[2], picture[3]}, {}};
    for (const char* part : {"/0", "/1"})
      split.parts.push_back(run.input(std::string(name) + part, DType::kU8, picture));
    m.splits.push_back(std::move(split));
  }
  run.input("desire_pulse", dtype, {1, 25, 8});
  run.input("traffic_convention", dtype, {1, 2});
  run.input("action_t", dtype, {1, 2});
  const uint32_t state = run.input("features_buffer", dtype, {1, 2, kSampleFeatures});
  run.output("outputs", dtype, {1, 64});
  m.states.push_back({state, run.output("next_features_buffer", dtype, {1, 2, kSampleFeatures})});
  m.plan.entries.push_back(run.take());
  m.slices = {{"all", 0, 64}};
  m.context_frames = 2;
  add_warp(m, "road", picture);
  add_warp(m, "wide", picture);
  return m;
}

bundle::Manifest sample_cabin_manifest() {
  bundle::Manifest m;
  m.role = bundle::Role::kCabin;
  EntryMaker run("run");
  const std::vector<int64_t> picture = {1, kSampleModelHeight * kSampleModelWidth};
  run.input("input_img", DType::kU8, picture);
  run.input("calib", DType::kF32, {1, 3});
  run.output("outputs", DType::kF32, {1, 8});
  m.plan.entries.push_back(run.take());
  m.slices = {{"all", 0, 8}};
  add_warp(m, "cabin", picture);
  return m;
}

Result<std::unique_ptr<SampleModel>> load_sample(bundle::Manifest manifest) {
  auto sample = std::make_unique<SampleModel>();
  sample->manifest = std::move(manifest);
  SampleModel* self = sample.get();
  hal::DeviceConfig config;
  config.on_null_run = [self](const std::string& label, std::span<const uint64_t> slots) {
    self->labels.push_back(label);
    const exec::Entry* entry = self->manifest.plan.find_entry(label);
    CHECK(entry != nullptr);
    if (label == "run") {
      if (self->on_run) self->on_run(SampleRun(*entry, slots));
    } else {
      run_warp(*entry, slots);
    }
  };
  ASSIGN_OR_RETURN(sample->device, hal::open_device("null", config));
  ASSIGN_OR_RETURN(sample->plan, exec::LoadedPlan::load(sample->manifest.plan, *sample->device));
  return sample;
}

SamplePicture::SamplePicture() : memory(kBytes + 64) {
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  start = memory.data() + (64 - address % 64) % 64;
}

void SamplePicture::fill(uint8_t value) {
  std::fill(start, start + kBytes, value);
}

FrameView SamplePicture::view(uint64_t frame_id) const {
  FrameView frame;
  frame.nv12 = reinterpret_cast<uint64_t>(start);
  frame.bytes = kBytes;
  frame.width = kSampleCameraWidth;
  frame.height = kSampleCameraHeight;
  frame.stride = kStride;
  frame.uv_offset = kUvOffset;
  frame.camera = {100, 100, kSampleCameraWidth / 2.0, kSampleCameraHeight / 2.0};
  frame.frame_id = frame_id;
  return frame;
}

}  // namespace modeld::models
