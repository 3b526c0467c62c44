#include "models/selftest_cases.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "hal/backends.h"

#include "models/common/sample_model.h"

namespace modeld::models {
namespace {

constexpr size_t kPixels = kSampleModelWidth * kSampleModelHeight;

// The cabin sample with one golden case: the picture is all 3, the outputs 0, 2, 4, ... 14.
class GoldenCases : public ::testing::Test {
 protected:
  void SetUp() override {
    bundle::Manifest m = sample_cabin_manifest();
    bundle::GoldenCase row{.entry = 0, .tolerance = 1e-4};
    add(row, false, 0, std::vector<uint8_t>(kPixels, 3));
    add(row, false, 1, std::vector<float>{1, 2, 3});
    std::vector<float> outputs(8);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = static_cast<float>(2 * i);
    add(row, true, 0, outputs);
    m.golden.push_back(row);
    auto sample = load_sample(std::move(m));
    ASSERT_TRUE(sample.ok()) << sample.error().what;
    sample_ = std::move(*sample);
    sample_->on_run = [this](const SampleRun& run) {
      ++runs_;
      const uint8_t pixel = run.in<uint8_t>("input_img")[kPixels - 1];
      for (size_t i = 0; i < 8; ++i) {
        run.out<float>("outputs")[i] =
            static_cast<float>(i) * (static_cast<float>(pixel) - 1) + error_[i];
      }
      if (is_drifting_) error_[0] += 1e-6f;
    };
  }

  template <class T>
  void add(bundle::GoldenCase& row, bool is_output, uint32_t tensor, const std::vector<T>& values) {
    const size_t offset = golden_.size();
    golden_.resize(offset + values.size() * sizeof(T));
    std::memcpy(golden_.data() + offset, values.data(), values.size() * sizeof(T));
    row.tensors.push_back({is_output, tensor, offset, values.size() * sizeof(T)});
  }

  CaseResult run() {
    const auto results =
        run_golden_cases(sample_->manifest, golden_, *sample_->plan, Deadline::in_ms(60'000));
    EXPECT_TRUE(results.ok()) << (results.ok() ? "" : results.error().what);
    if (!results.ok() || results->size() != 1) return {};
    return results->front();
  }

  std::vector<std::byte> golden_;
  std::array<float, 8> error_{};
  bool is_drifting_ = false;
  int runs_ = 0;
  std::unique_ptr<SampleModel> sample_;
};

TEST_F(GoldenCases, PassWithinToleranceOfTheLargestNumber) {
  EXPECT_TRUE(run().has_passed);
  EXPECT_EQ(runs_, 2);
  error_[0] = 1.3e-3f;  // 1e-4 x 14 = 1.4e-3
  const CaseResult near = run();
  EXPECT_TRUE(near.has_passed) << near.text;
  EXPECT_NEAR(near.worst_error, 1.3e-3 / 14, 1e-7);
  error_[0] = 1.5e-3f;
  const CaseResult far = run();
  EXPECT_FALSE(far.has_passed);
  EXPECT_EQ(far.text.substr(0, 15), "outputs[0] is 0");
}

TEST_F(GoldenCases, FailOnNonFiniteAndOnRunsThatDiffer) {
  error_[5] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(run().text, "outputs[5] is inf, golden 10");
  error_[5] = std::nanf("");
  EXPECT_FALSE(run().has_passed);
  error_[5] = 0;
  is_drifting_ = true;
  EXPECT_EQ(run().text, "outputs: the second run differs from the first");
}

TEST_F(GoldenCases, TellAWrongNumberFromOneThatDrifts) {
  error_[5] = 1;
  const CaseResult wrong = run();
  EXPECT_FALSE(wrong.matches_golden);
  EXPECT_TRUE(wrong.is_repeatable);
  error_[5] = 0;
  is_drifting_ = true;
  const CaseResult drifting = run();
  EXPECT_TRUE(drifting.matches_golden);
  EXPECT_FALSE(drifting.is_repeatable);
}

TEST_F(GoldenCases, RefuseVectorsThatDoNotFit) {
  golden_.resize(golden_.size() - 1);
  const auto results =
      run_golden_cases(sample_->manifest, golden_, *sample_->plan, Deadline::in_ms(60'000));
  ASSERT_FALSE(results.ok());
  EXPECT_EQ(results.error().code, Errc::kCorrupt);
}

// Every float output, states included, of both float types.
TEST(FiniteCase, FindsWhatIsPutIntoEveryOutput) {
  for (const ir::DType type : {ir::DType::kF32, ir::DType::kF16}) {
    auto sample = load_sample(sample_road_manifest(type));
    ASSERT_TRUE(sample.ok()) << sample.error().what;
    const auto result =
        run_finite_case((*sample)->manifest, *(*sample)->plan, Deadline::in_ms(10'000));
    ASSERT_TRUE(result.ok()) << result.error().what;
    EXPECT_TRUE(result->has_passed) << result->text;
    EXPECT_TRUE((*sample)->labels.empty()) << "nothing ran: the numbers are the case's own";
  }
}

// The null device never stalls, so that its waits cannot end as a timeout: the case must say so.
TEST(DeadlineCase, FailsOnADeviceThatDoesNotWait) {
  const auto device = hal::open_device("null");
  ASSERT_TRUE(device.ok()) << device.error().what;
  const auto result = run_deadline_case(**device);
  ASSERT_TRUE(result.ok()) << result.error().what;
  EXPECT_EQ(result->text, "a wait for a stalled queue came back as done");
}

TEST(DeadlineCase, PassesOnADeviceThatDoes) {
  const auto device = hal::open_device("cpu");
  ASSERT_TRUE(device.ok()) << device.error().what;
  const auto result = run_deadline_case(**device);
  ASSERT_TRUE(result.ok()) << result.error().what;
  EXPECT_TRUE(result->has_passed) << result->text;
}

}  // namespace
}  // namespace modeld::models
