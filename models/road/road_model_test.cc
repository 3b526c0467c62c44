#include "models/road/road_model.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "models/common/sample_model.h"

namespace modeld::road {
namespace {

using models::Finding;
using models::FrameInputs;
using models::SampleModel;
using models::SamplePicture;
using models::SampleRun;

// What entry run saw in one frame, and what it is to answer.
struct Seen {
  std::array<uint8_t, 4> first_bytes{};  // img/0, img/1, big_img/0, big_img/1
  std::array<float, 200> desire{};
  std::array<float, 2> traffic{}, action{};
  float newest_feature = 0;
};

class RoadModelTest : public ::testing::Test {
 protected:
  void load(bundle::Manifest manifest = models::sample_road_manifest()) {
    Result<std::unique_ptr<SampleModel>> sample = models::load_sample(std::move(manifest));
    ASSERT_TRUE(sample.ok()) << sample.error().what;
    sample_ = std::move(*sample);
    Result<std::unique_ptr<models::Model>> model =
        RoadModel::create(sample_->manifest, *sample_->plan);
    ASSERT_TRUE(model.ok()) << model.error().what;
    sample_->model = std::move(*model);
    sample_->on_run = [this](const SampleRun& run) { kernel(run); };
  }

  // Outputs count up from the newest picture's first byte; the state counts runs.
  void kernel(const SampleRun& run) {
    seen_.first_bytes = {*run.in<uint8_t>("img/0"), *run.in<uint8_t>("img/1"),
                         *run.in<uint8_t>("big_img/0"), *run.in<uint8_t>("big_img/1")};
    std::copy_n(run.in<float>("desire_pulse"), 200, seen_.desire.begin());
    std::copy_n(run.in<float>("traffic_convention"), 2, seen_.traffic.begin());
    std::copy_n(run.in<float>("action_t"), 2, seen_.action.begin());
    const float* features = run.in<float>("features_buffer");
    seen_.newest_feature = features[7];
    for (size_t i = 0; i < 64; ++i)
      run.out<float>("outputs")[i] = static_cast<float>(seen_.first_bytes[1] + i);
    for (size_t i = 0; i < 8; ++i) run.out<float>("next_features_buffer")[i] = features[i] + 1;
    if (bad_output_) run.out<float>("outputs")[17] = std::nanf("");
    if (bad_state_)
      run.out<float>("next_features_buffer")[3] = std::numeric_limits<float>::infinity();
    if (zero_) std::fill_n(run.out<float>("outputs"), 64, 0.0f);
  }

  // Both cameras show one value; no calibration shift.
  FrameInputs inputs(uint8_t road, uint8_t wide) {
    road_.fill(road);
    wide_.fill(wide);
    FrameInputs in;
    in.frames[0] = road_.view(1);
    in.frames[1] = wide_.view(1);
    in.vehicle.is_calibrated = true;
    return in;
  }

  Finding step(const FrameInputs& in) {
    models::Model& model = *sample_->model;
    Status status = model.stage(in);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().what);
    status = model.run(Deadline::in_ms(60'000));
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().what);
    const Result<Finding> finding = model.check(Deadline::in_ms(60'000));
    EXPECT_TRUE(finding.ok());
    if (finding->is_good) {
      model.commit();
    } else {
      EXPECT_TRUE(model.reset().ok());
    }
    return *finding;
  }

  SamplePicture road_, wide_;
  Seen seen_;
  bool bad_output_ = false, bad_state_ = false, zero_ = false;
  std::unique_ptr<SampleModel> sample_;
};

TEST_F(RoadModelTest, GivesTheModelThePictureOfNowAndOfFourFramesAgo) {
  load();
  for (int frame = 0; frame < 23; ++frame) {
    const auto road = static_cast<uint8_t>(10 + frame);
    const auto wide = static_cast<uint8_t>(100 + frame);
    EXPECT_TRUE(step(inputs(road, wide)).is_good);
    const auto old_road = static_cast<uint8_t>(frame < 4 ? 0 : road - 4);
    const auto old_wide = static_cast<uint8_t>(frame < 4 ? 0 : wide - 4);
    EXPECT_EQ(seen_.first_bytes, (std::array<uint8_t, 4>{old_road, road, old_wide, wide})) << frame;
  }
}

TEST_F(RoadModelTest, WarpsBothCamerasBeforeTheModelRuns) {
  load();
  step(inputs(1, 2));
  EXPECT_EQ(sample_->labels, (std::vector<std::string>{"warp/road", "warp/wide", "run"}));
}

TEST_F(RoadModelTest, StateAdvancesByCommitOnly) {
  load();
  for (int frame = 0; frame < 5; ++frame) {
    step(inputs(7, 8));
    EXPECT_EQ(seen_.newest_feature, static_cast<float>(frame));
  }
  // A frame that is run but not committed leaves the state as it was.
  models::Model& model = *sample_->model;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(model.stage(inputs(7, 8)).ok());
    ASSERT_TRUE(model.run(Deadline::in_ms(60'000)).ok());
    EXPECT_EQ(seen_.newest_feature, 5.0f);
  }
}

TEST_F(RoadModelTest, ResetForgetsStatePicturesAndDesires) {
  load();
  FrameInputs in = inputs(50, 60);
  in.vehicle.desire[3] = 1;
  for (int frame = 0; frame < 6; ++frame) step(in);
  EXPECT_NE(seen_.newest_feature, 0);
  EXPECT_NE(seen_.first_bytes[0], 0);
  ASSERT_TRUE(sample_->model->reset().ok());
  step(inputs(50, 60));
  EXPECT_EQ(seen_.newest_feature, 0);
  EXPECT_EQ(seen_.first_bytes, (std::array<uint8_t, 4>{0, 50, 0, 60}));
  EXPECT_EQ(seen_.desire, (std::array<float, 200>{}));
}

TEST_F(RoadModelTest, PassesTheVehicleOn) {
  load();
  FrameInputs in = inputs(1, 2);
  in.vehicle.desire[4] = 1;
  in.vehicle.is_right_hand_drive = true;
  in.vehicle.lateral_action_time = 0.25f;
  in.vehicle.longitudinal_action_time = 0.5f;
  step(in);
  EXPECT_EQ(seen_.desire[24 * 8 + 4], 1);
  EXPECT_EQ(seen_.traffic, (std::array<float, 2>{0, 1}));
  EXPECT_EQ(seen_.action, (std::array<float, 2>{0.25f, 0.5f}));
}

TEST_F(RoadModelTest, FindsBadNumbersInOutputsAndStates) {
  load();
  bad_output_ = true;
  EXPECT_EQ(step(inputs(1, 2)).text, "outputs[17] is nan");
  bad_output_ = false;
  bad_state_ = true;
  EXPECT_EQ(step(inputs(1, 2)).text, "next_features_buffer[3] is inf");
  bad_state_ = false;
  zero_ = true;
  EXPECT_EQ(step(inputs(1, 2)).text, "all 64 numbers of outputs are 0");
  zero_ = false;
  EXPECT_TRUE(step(inputs(1, 2)).is_good);
  EXPECT_EQ(seen_.newest_feature, 0);  // nothing of the bad frames is left
  EXPECT_EQ(sample_->model->raw()[2], 3.0f);
}

TEST_F(RoadModelTest, RefusesFramesItCannotRun) {
  load();
  models::Model& model = *sample_->model;
  FrameInputs in = inputs(1, 2);
  in.vehicle.is_calibrated = false;
  EXPECT_EQ(model.stage(in).error().what, "road model: the calibration is not known");
  in = inputs(1, 2);
  in.frames[1].width = 42;
  const Status unknown = model.stage(in);
  EXPECT_EQ(unknown.error().code, Errc::kMismatch);
  EXPECT_EQ(unknown.error().what, "camera wide is 42x24: the bundle has no warp for it");
  in = inputs(1, 2);
  in.frames[0].bytes -= 1;
  EXPECT_EQ(model.stage(in).error().code, Errc::kInvalid);
  in = inputs(1, 2);
  in.frames[0].nv12 += 32;
  EXPECT_FALSE(model.stage(in).ok());
  in = inputs(1, 2);
  in.frames[0].stride = 2048;  // beyond what the warp was compiled for
  EXPECT_FALSE(model.stage(in).ok());
  in = inputs(1, 2);
  in.vehicle.lateral_action_time = std::nanf("");
  EXPECT_FALSE(model.stage(in).ok());
  EXPECT_TRUE(step(inputs(9, 9)).is_good);
}

TEST_F(RoadModelTest, NamesWhatTheBundleLacks) {
  const auto error_of = [](bundle::Manifest manifest) -> std::string {
    auto sample = models::load_sample(std::move(manifest));
    if (!sample.ok()) return sample.error().what;
    const auto model = RoadModel::create((*sample)->manifest, *(*sample)->plan);
    return model.ok() ? "" : model.error().what;
  };
  bundle::Manifest m = models::sample_road_manifest();
  m.splits.pop_back();
  EXPECT_EQ(error_of(m), "road model: input 'big_img' is not taken in parts");
  m = models::sample_road_manifest();
  m.intrinsics.clear();
  EXPECT_EQ(error_of(m), "model: the bundle has no intrinsics for 'road'");
  m = models::sample_road_manifest();
  m.plan.entries[0].inputs[4].name = "desire";
  EXPECT_EQ(error_of(m), "model: no input 'desire_pulse'");
  m = models::sample_road_manifest();
  m.plan.entries[0].outputs[0].name = "result";
  EXPECT_EQ(error_of(m), "model: entry 'run' has no float output 'outputs'");
}

TEST_F(RoadModelTest, HalfPrecisionGoesInAndOutAsFloats) {
  load(models::sample_road_manifest(ir::DType::kF16));
  std::array<uint16_t, 2> action{};
  bool bad = false;
  sample_->on_run = [&](const SampleRun& run) {
    std::copy_n(run.in<uint16_t>("action_t"), 2, action.begin());
    for (size_t i = 0; i < 64; ++i)
      run.out<uint16_t>("outputs")[i] = static_cast<uint16_t>(0x3c00 + i);
    if (bad) run.out<uint16_t>("next_features_buffer")[5] = 0xfc00;
  };
  FrameInputs in = inputs(1, 2);
  in.vehicle.lateral_action_time = 0.5f;
  EXPECT_TRUE(step(in).is_good);
  EXPECT_EQ(action[0], 0x3800);
  EXPECT_EQ(sample_->model->raw().size(), 64u);
  EXPECT_EQ(sample_->model->raw()[0], 1.0f);
  EXPECT_EQ(sample_->model->raw()[1], 1.0f + 0x1p-10f);
  bad = true;
  EXPECT_EQ(step(in).text, "next_features_buffer[5] is -inf");
}

}  // namespace
}  // namespace modeld::road
