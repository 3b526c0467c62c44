// The record of a failure: what the daemon keeps of a bad run is that run, and makes it again.
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ipc/flight.h"

#include "selftest/e2e/harness.h"

namespace modeld::e2e {
namespace {

using ipc::ModelState;
using ipc::Reason;

constexpr int64_t kLoadMs = 60'000;
constexpr uint64_t kBlackFrame = 100;  // five seconds after the camera's start

class FlightRecord : public testing::Test {
 protected:
  // Loaded before the camera starts, so that many frames run before the black one.
  void start(const std::string& variant, bool goes_black) {
    bundle_ = tiny_bundle("road", variant);
    RigOptions o;
    o.bundles = {{"road", bundle_}};
    o.strict = {"road"};
    o.model_extra["road"] = "late_ms = 2000\ntimeout_ms = 2000\n";
    if (goes_black) o.camera = {"--black-at", std::to_string(kBlackFrame)};
    o.start_camera = false;
    rig_ = std::make_unique<Rig>(o);
    ASSERT_TRUE(rig_->tap().wait_state("road", ModelState::kWarming, kLoadMs));
    rig_->start_camera();
    ASSERT_TRUE(rig_->tap().wait_state("road", ModelState::kReady, kLoadMs));
  }
  std::vector<Output> valid() { return valid_ones(rig_->tap().outputs("road")); }
  // Until the black frame was run; a busy machine may lose it.
  void start_until_black(const std::string& variant) {
    const auto is_out = [&] { return rig_->tap().find_fault("road").has_value(); };
    const auto is_past = [&] {
      return is_out() || (!valid().empty() && valid().back().frame_id > kBlackFrame + 20);
    };
    for (int i = 0; i < 5; ++i) {
      start(variant, true);
      ASSERT_FALSE(HasFatalFailure());
      ASSERT_TRUE(rig_->tap().wait_for(is_past, kLoadMs));
      if (is_out()) return;
    }
    FAIL() << "the black frame never was run";
  }
  // The one file there is, read.
  void take_record(Reason reason) {
    const auto is_out = [&] { return rig_->tap().find_fault("road").has_value(); };
    ASSERT_TRUE(rig_->tap().wait_for(is_out, kLoadMs));
    EXPECT_EQ(rig_->tap().find_fault("road")->status.reason, reason);
    const std::string dir = join_path(rig_->dir(), "flight");
    const auto files = [&] {
      std::vector<std::string> out;
      const auto names = list_dir(dir);
      for (const std::string& n : names.ok() ? *names : std::vector<std::string>())
        if (n.ends_with(ipc::kFlightSuffix)) out.push_back(n);
      return out;
    };
    ASSERT_TRUE(rig_->tap().wait_for([&] { return !files().empty(); }, kLoadMs));
    ASSERT_EQ(files().size(), 1u);
    path_ = join_path(dir, files()[0]);
    const auto bytes = read_file(path_);
    ASSERT_TRUE(bytes.ok()) << bytes.error().what;
    bytes_ = *bytes;
    auto flight = ipc::parse_flight(bytes_);
    ASSERT_TRUE(flight.ok()) << flight.error().what;
    flight_ = std::move(*flight);
    EXPECT_EQ(flight_.reason, reason);
  }
  // The bad run and the runs before it are those that were published.
  void expect_the_runs() {
    EXPECT_EQ(flight_.before.size(), 20u);
    for (size_t i = 1; i < flight_.before.size(); ++i)
      EXPECT_GT(flight_.before[i].frame_id, flight_.before[i - 1].frame_id);
    EXPECT_LT(flight_.before.back().frame_id, flight_.failed.frame_id);
    EXPECT_FALSE(flight_.before.back().raw.empty());
    EXPECT_TRUE(flight_.failed.vehicle.calibration_known);
    EXPECT_EQ(flight_.source.rfind("synth", 0), 0u) << flight_.source;
  }
  ipc::FlightTensor* tensor(bool is_output, const std::string& name) {
    for (ipc::FlightTensor& t : flight_.tensors)
      if (t.is_output == is_output && t.name == name) return &t;
    return nullptr;
  }
  ProcResult replay(const std::string& path) {
    return modelc({"run", bundle_, "--replay", path, "--json"});
  }
  std::string rewritten(const std::string& name) {
    EXPECT_TRUE(write_file_atomic(rig_->file(name), ipc::encode_flight(flight_)).ok());
    return rig_->file(name);
  }

  std::string bundle_;
  std::unique_ptr<Rig> rig_;
  std::string path_;
  std::vector<std::byte> bytes_;
  ipc::Flight flight_;
};

TEST_F(FlightRecord, HoldsABadRunThatReplaysToTheSameBadOutput) {
  start_until_black("nan");
  ASSERT_FALSE(HasFatalFailure());
  take_record(Reason::kNonFinite);
  expect_the_runs();
  EXPECT_EQ(flight_.failed.frame_id, kBlackFrame);
  const ipc::FlightTensor* bad = tensor(true, "outputs");
  ASSERT_NE(bad, nullptr);
  const auto is_bad = [](float v) { return !std::isfinite(v); };
  std::vector<float> numbers(bad->bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bad->bytes.data(), bad->bytes.size());
  EXPECT_TRUE(std::any_of(numbers.begin(), numbers.end(), is_bad));
  EXPECT_EQ(std::memcmp(flight_.failed.raw.data(), bad->bytes.data(), bad->bytes.size()), 0);
  const ProcResult again = replay(path_);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  const auto json = Json::parse(again.out);
  ASSERT_TRUE(json.ok()) << again.out;
  EXPECT_EQ(json->find("reason")->string_or(""), "non_finite");
  EXPECT_EQ(json->find("frame")->int_or(0), static_cast<int64_t>(kBlackFrame));
  EXPECT_GT(json->find("inputs")->int_or(0), 4);
  EXPECT_GE(json->find("outputs")->int_or(0), 2);
  // Not because everything is equal to everything: one bit of an output, then another input.
  tensor(true, "outputs")->bytes[0] ^= std::byte{1};
  EXPECT_TRUE(is_one_clear_line(replay(rewritten("changed.flight")), 1));
  tensor(true, "outputs")->bytes[0] ^= std::byte{1};
  ipc::FlightTensor* features = tensor(false, "features_buffer");
  ASSERT_NE(features, nullptr);
  EXPECT_TRUE(std::any_of(features->bytes.begin(), features->bytes.end(), [](std::byte b) {
    return b != std::byte{0};
  })) << "the state of seconds of driving";
  std::fill(features->bytes.begin(), features->bytes.end(), std::byte{0});
  EXPECT_TRUE(is_one_clear_line(replay(rewritten("reset.flight")), 1));
}

TEST_F(FlightRecord, AStateGoneBadIsKeptAsWell) {
  start_until_black("nan-state");
  ASSERT_FALSE(HasFatalFailure());
  take_record(Reason::kNonFinite);
  expect_the_runs();
  const ProcResult again = replay(path_);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  // Of another model it is no record.
  const ProcResult other = modelc({"run", tiny_bundle("road"), "--replay", path_});
  EXPECT_TRUE(is_one_clear_line(other, 1));
  EXPECT_THAT(other.err, testing::HasSubstr("the record is of model"));
}

TEST_F(FlightRecord, AHungRunIsKeptAsItsPictures) {
  start("clean", false);
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(rig_->tap().wait_for([&] { return valid().size() > 25; }, kLoadMs));
  kill(rig_->worker_pid("road"), SIGSTOP);
  take_record(Reason::kTimeout);
  expect_the_runs();
  EXPECT_TRUE(flight_.tensors.empty());
  EXPECT_TRUE(flight_.failed.raw.empty());
  ASSERT_EQ(flight_.pictures.size(), 2u);
  EXPECT_EQ(flight_.pictures[0].frame_id, flight_.failed.frame_id);
  EXPECT_EQ(flight_.pictures[0].width, 1928u);
  const auto& pixels = flight_.pictures[0].nv12;
  EXPECT_GT(*std::max_element(pixels.begin(), pixels.end()), 16);
  const ProcResult again = replay(path_);
  EXPECT_TRUE(is_one_clear_line(again, 1));
  EXPECT_THAT(again.err, testing::HasSubstr("left no inputs behind"));
}

}  // namespace
}  // namespace modeld::e2e
