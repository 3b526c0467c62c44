#include "models/cabin/cabin_model.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "models/common/sample_model.h"

namespace modeld::cabin {
namespace {

using models::FrameInputs;
using models::SampleModel;
using models::SamplePicture;
using models::SampleRun;

constexpr size_t kPixels = models::kSampleModelWidth * models::kSampleModelHeight;

TEST(CabinModel, RunsOnTheWarpedLumaAndTheCalibration) {
  auto sample = models::load_sample(models::sample_cabin_manifest());
  ASSERT_TRUE(sample.ok()) << sample.error().what;
  auto model = CabinModel::create((*sample)->manifest, *(*sample)->plan);
  ASSERT_TRUE(model.ok()) << model.error().what;

  std::vector<uint8_t> luma(kPixels);
  std::array<float, 3> calib{};
  (*sample)->on_run = [&](const SampleRun& run) {
    std::memcpy(luma.data(), run.in<uint8_t>("input_img"), kPixels);
    std::memcpy(calib.data(), run.in<float>("calib"), sizeof calib);
    for (int i = 0; i < 8; ++i) run.out<float>("outputs")[i] = static_cast<float>(i);
  };
  SamplePicture picture;
  for (size_t i = 0; i < SamplePicture::kBytes; ++i)
    picture.luma()[i] = static_cast<uint8_t>(i * 7);
  FrameInputs in;
  in.frames[static_cast<size_t>(models::Stream::kCabin)] = picture.view(1);
  in.vehicle.is_calibrated = true;
  in.vehicle.rpy = {0.25, -0.5, 1};
  ASSERT_TRUE((*model)->stage(in).ok());
  ASSERT_TRUE((*model)->run(Deadline::in_ms(60'000)).ok());
  const auto finding = (*model)->check(Deadline::in_ms(60'000));
  ASSERT_TRUE(finding.ok());
  EXPECT_TRUE(finding->is_good) << finding->text;
  (*model)->commit();
  EXPECT_EQ(calib, (std::array<float, 3>{0.25f, -0.5f, 1}));
  EXPECT_EQ((*model)->raw()[5], 5.0f);
  EXPECT_EQ((*model)->context_frames(), 0u);
  // Equal focal lengths: the model's centre (8, 4) is the camera's centre (20, 12).
  for (uint32_t y = 0; y < models::kSampleModelHeight; ++y) {
    for (uint32_t x = 0; x < models::kSampleModelWidth; ++x) {
      ASSERT_EQ(luma[y * models::kSampleModelWidth + x],
                picture.luma()[(y + 8) * SamplePicture::kStride + x + 12]);
    }
  }
}

TEST(CabinModel, RefusesAnUncalibratedFrameAndABundleOfAnotherShape) {
  auto sample = models::load_sample(models::sample_cabin_manifest());
  ASSERT_TRUE(sample.ok());
  auto model = CabinModel::create((*sample)->manifest, *(*sample)->plan);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ((*model)->stage({}).error().what, "cabin model: the calibration is not known");

  bundle::Manifest wrong = models::sample_cabin_manifest();
  wrong.plan.entries[0].inputs[0].bytes = 100;
  wrong.plan.entries[0].inputs[0].dims = {1, 100};
  auto other = models::load_sample(wrong);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(CabinModel::create((*other)->manifest, *(*other)->plan).error().what,
            "model: warp of cabin 40x24 writes 128 bytes, the model takes 100");
}

}  // namespace
}  // namespace modeld::cabin
