// A recording made from a built tiny cabin model is replayed: the same bits, or frame and index of
// the first that differs.
#include "models/tools/replay.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hal/backends.h"
#include "hal/base/fs.h"

#include "models/model.h"
#include "models/reference/reference.h"
#include "models/tools/build_model.h"

#include "ipc/frame_source.h"
#include "ipc/recording.h"

namespace modeld::tools {
namespace {

constexpr const char* kSource =
    "synth;seed=3;vehicle=straight;fps=20;road=64x32;wide=64x32;cabin=64x32";

class Replay : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(dir_.ok());
    reference::ReferenceOptions o;
    o.role = reference::Role::kCabin;
    o.size = reference::Size::kTiny;
    ASSERT_TRUE(reference::write_reference(o, at("m.onnx")).ok());
    BuildOptions options;
    options.onnx_path = at("m.onnx");
    options.output_path = at("m.bundle");
    options.target = *hal::parse_target("cpu");
    options.role = bundle::Role::kCabin;
    options.cameras = {{64, 32}};
    const auto built = build_model(options);
    ASSERT_TRUE(built.ok()) << built.error().what;
    auto b = bundle::Bundle::open(at("m.bundle"));
    ASSERT_TRUE(b.ok()) << b.error().what;
    bundle_ = std::move(*b);
    auto device = hal::open_device("cpu");
    ASSERT_TRUE(device.ok());
    device_ = std::move(*device);
    record();
  }
  std::string at(const std::string& name) const { return join_path(dir_->path(), name); }

  // What the daemon would have sent, frame by frame, made with the plain scalar path: draw, upload,
  // stage, run, check.
  void record() {
    const exec::Plan plan = bundle_->to_plan();
    auto loaded = exec::LoadedPlan::load(plan, *device_, bundle_->sources());
    ASSERT_TRUE(loaded.ok()) << loaded.error().what;
    auto model = models::make_model(bundle_->manifest(), **loaded);
    ASSERT_TRUE(model.ok()) << model.error().what;
    auto source = ipc::FrameSource::open(*ipc::parse_source(kSource));
    ASSERT_TRUE(source.ok()) << source.error().what;
    const ipc::StreamInfo* info = (*source)->stream(ipc::StreamId::kCabin);
    hal::BufferDesc desc;
    desc.size_bytes = info->geometry.size;
    auto buffer = device_->allocator().alloc(desc);
    ASSERT_TRUE(buffer.ok());
    recording_.source = kSource;
    for (uint64_t id = 7; id < 10; ++id) {
      const auto bytes = buffer->cpu();
      ASSERT_TRUE((*source)
                      ->draw(ipc::StreamId::kCabin, id,
                             {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()})
                      .ok());
      ipc::RecordedRun run;
      run.model = ipc::RecordedModel::kCabin;
      run.frame_id = id;
      run.resets = 1;
      run.since_reset = id - 6;
      run.vehicle = *(*source)->vehicle(id);
      models::FrameInputs in;
      in.vehicle.is_calibrated = run.vehicle.calibration_known;
      for (size_t i = 0; i < 3; ++i) in.vehicle.rpy[i] = double{run.vehicle.rpy_calibration[i]};
      const auto& g = info->geometry;
      in.frames[2] = {
          buffer->addr(),
          g.size,
          g.width,
          g.height,
          g.stride,
          g.uv_offset,
          {info->intrinsics.fx, info->intrinsics.fy, info->intrinsics.cx, info->intrinsics.cy},
          id,
          0};
      ASSERT_TRUE((*model)->stage(in).ok());
      ASSERT_TRUE((*model)->run(Deadline::in_ms(10'000)).ok());
      const auto finding = (*model)->check(Deadline::in_ms(10'000));
      ASSERT_TRUE(finding.ok() && finding->is_good);
      (*model)->commit();
      run.raw.assign((*model)->raw().begin(), (*model)->raw().end());
      recording_.runs.push_back(std::move(run));
    }
  }
  Result<ReplayReport> replay_now() {
    EXPECT_TRUE(ipc::write_recording(at("r.rec"), recording_).ok());
    return replay(*bundle_, *device_, at("r.rec"));
  }

  Result<TempDir> dir_ = TempDir::create("replay-test");
  std::unique_ptr<hal::Device> device_;
  std::unique_ptr<bundle::Bundle> bundle_;
  ipc::Recording recording_;
};

TEST_F(Replay, SameFramesGiveTheSameBits) {
  auto r = replay_now();
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(r->runs, 3u);
  EXPECT_EQ(r->numbers, 3 * recording_.runs[0].raw.size());
  EXPECT_NE(recording_.runs[0].raw, recording_.runs[1].raw) << "the scene must matter";
}

TEST_F(Replay, OneOtherBitNamesFrameAndIndex) {
  float& f = recording_.runs[1].raw[5];
  f = std::nextafterf(f, 100.0f);
  auto r = replay_now();
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Errc::kMismatch);
  EXPECT_NE(r.error().what.find("frame 8: outputs[5] is"), std::string::npos) << r.error().what;
}

TEST_F(Replay, AnotherFrameIsFound) {
  recording_.runs[2].frame_id = 20;
  auto r = replay_now();
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().what.find("frame 20"), std::string::npos) << r.error().what;
}

TEST_F(Replay, RecordingWithoutThisModelSaysSo) {
  recording_.runs.clear();
  auto r = replay_now();
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().what.find("no runs of role cabin"), std::string::npos) << r.error().what;
}

}  // namespace
}  // namespace modeld::tools
