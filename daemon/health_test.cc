// The daemon's own numbers, as a strict reader of the format sees them.
#include "daemon/health.h"

#include "daemon/test_fakes.h"

#include "selftest/testing/prometheus_parser.h"

namespace modeld::daemon {
namespace {

using testing_prometheus::Families;

constexpr int64_t kMs = 1'000'000;

class NoSender final : public ipc::Sender {
 public:
  Status send(std::span<const std::byte>) override { return {}; }
};

class HealthTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::create("health");
    ASSERT_TRUE(dir.ok());
    dir_ = std::make_unique<TempDir>(std::move(*dir));
    camera_ = std::make_unique<TestCamera>(dir_->path());
    config_.name = "cabin";
    config_.bundle = dir_->path() + "/cabin.bundle";
    unit_ = std::make_unique<ModelUnit>(config_, WorkerSetup{}, worker_, topic_);
    pair_ = std::make_unique<ModelPair>(*unit_, nullptr);
    health_ = std::make_unique<Health>(sender_, file(), std::vector<ModelPair*>{pair_.get()},
                                       RealtimeMissing());
    vehicle_.calibration_known = true;
    ASSERT_TRUE(pair_->set_buffers(camera_->buffers(), camera_->fds(), now_).ok());
    tick(1);
    worker_.phase(WorkerEvent::Kind::kSelftest);
    worker_.phase(WorkerEvent::Kind::kHello);
    tick(1);
  }
  std::string file() const { return dir_->path() + "/metrics.prom"; }
  void tick(int64_t ms) {
    now_ += ms * kMs;
    vehicle_.time_ns = now_;
    pair_->tick(now_, {&vehicle_, true});
    (void)pair_->take_changed();
    health_->observe(200'000);
  }
  void run_frame(AnswerStatus status = AnswerStatus::kAccepted) {
    camera_->publish(now_);
    FrameSet set;
    ASSERT_TRUE(pair_->sync().match(camera_->client(), set, now_));
    pair_->hand_over(std::move(set), {&vehicle_, true}, now_);
    worker_.reply(status);
    tick(10);
  }
  Families read() {
    FeedHealth feed;
    feed.camera_connected = true;
    feed.frames_lost[2] = 7;
    const auto parsed = testing_prometheus::parse(health_->render(now_, feed));
    EXPECT_TRUE(parsed.ok()) << parsed.error().what;
    return parsed.ok() ? *parsed : Families();
  }
  static double value(const Families& f, const std::string& family, const std::string& key) {
    const auto at = f.find(family);
    if (at == f.end() || at->second.samples.count(key) == 0) {
      ADD_FAILURE() << "no " << key;
      return -1;
    }
    return at->second.samples.at(key);
  }

  std::unique_ptr<TempDir> dir_;
  std::unique_ptr<TestCamera> camera_;
  ModelConfig config_;
  FakeWorker worker_;
  FakeTopic topic_;
  NoSender sender_;
  std::unique_ptr<ModelUnit> unit_;
  std::unique_ptr<ModelPair> pair_;
  std::unique_ptr<Health> health_;
  ipc::VehicleInputs vehicle_;
  int64_t now_ = 100'000 * kMs;
};

TEST_F(HealthTest, EveryCounterGaugeAndHistogramIsWellFormed) {
  topic_.latency_ns = 30 * kMs;
  run_frame();
  const Families f = read();
  EXPECT_EQ(value(f, "modeld_frames_accepted_total", "modeld_frames_accepted_total{model=cabin}"),
            1);
  EXPECT_EQ(
      value(f, "modeld_camera_frames_lost_total", "modeld_camera_frames_lost_total{stream=cabin}"),
      7);
  EXPECT_EQ(value(f, "modeld_model_state", "modeld_model_state{model=cabin,state=READY}"), 1);
  EXPECT_EQ(value(f, "modeld_model_state", "modeld_model_state{model=cabin,state=LOADING}"), 0);
  EXPECT_EQ(value(f, "modeld_latency_seconds", "modeld_latency_seconds_count{model=cabin}"), 1);
  EXPECT_NEAR(value(f, "modeld_latency_seconds", "modeld_latency_seconds_sum{model=cabin}"), 0.03,
              1e-9);
  EXPECT_EQ(value(f, "modeld_messages_total", "modeld_messages_total{model=cabin,valid=true}"), 1);
  EXPECT_GT(value(f, "modeld_resident_bytes", "modeld_resident_bytes{process=supervisor}"), 1e6);
  EXPECT_EQ(value(f, "modeld_vehicle_age_seconds", "modeld_vehicle_age_seconds"),
            std::numeric_limits<double>::infinity());
}

TEST_F(HealthTest, CountersNeverFallThroughAFaultAndARestart) {
  run_frame();
  Families before = read();
  const auto expect_monotone = [&] {
    const Families after = read();
    EXPECT_EQ(testing_prometheus::first_fallen(before, after), "");
    before = after;
  };
  run_frame(AnswerStatus::kNonFinite);
  expect_monotone();
  EXPECT_EQ(value(before, "modeld_unavailable_total",
                  "modeld_unavailable_total{model=cabin,reason=non_finite}"),
            1);
  worker_.kill();
  tick(10);
  expect_monotone();
  for (int i = 0; i < 50; ++i) tick(20);
  worker_.phase(WorkerEvent::Kind::kSelftest);
  worker_.phase(WorkerEvent::Kind::kHello);
  tick(10);
  run_frame();
  expect_monotone();
  EXPECT_EQ(value(before, "modeld_worker_starts_total", "modeld_worker_starts_total{model=cabin}"),
            2);
  EXPECT_EQ(
      value(before, "modeld_frames_accepted_total", "modeld_frames_accepted_total{model=cabin}"),
      2);
}

// A dashboard must not go blind when the fallback takes over.
TEST_F(HealthTest, WhoeverSpeaksIsTimedAndTheFallbackHasCountersOfItsOwn) {
  FakeWorker other_worker;
  FakeTopic other_topic;
  ModelUnit fallback(config_, WorkerSetup{}, other_worker, other_topic);
  pair_ = std::make_unique<ModelPair>(*unit_, &fallback);
  health_ = std::make_unique<Health>(sender_, "", std::vector<ModelPair*>{pair_.get()},
                                     RealtimeMissing());
  ASSERT_TRUE(pair_->set_buffers(camera_->buffers(), camera_->fds(), now_).ok());
  tick(1);
  other_worker.phase(WorkerEvent::Kind::kSelftest);
  other_worker.phase(WorkerEvent::Kind::kHello);
  tick(1);
  const auto frame = [&](bool primary_answers) {
    camera_->publish(now_);
    FrameSet set;
    ASSERT_TRUE(pair_->sync().match(camera_->client(), set, now_));
    pair_->hand_over(std::move(set), {&vehicle_, true}, now_);
    if (primary_answers) worker_.reply(AnswerStatus::kAccepted);
    other_worker.reply(AnswerStatus::kAccepted);
    tick(10);
  };
  frame(true);
  Families f = read();
  const std::string count = "modeld_latency_seconds_count{model=cabin}";
  EXPECT_EQ(value(f, "modeld_latency_seconds", count), 1);
  worker_.kill();
  tick(10);
  frame(false);
  frame(false);
  f = read();
  EXPECT_EQ(value(f, "modeld_latency_seconds", count), 3);
  EXPECT_EQ(value(f, "modeld_frames_accepted_total",
                  "modeld_frames_accepted_total{model=cabin-fallback}"),
            3);
  EXPECT_EQ(value(f, "modeld_unavailable_total",
                  "modeld_unavailable_total{model=cabin-fallback,reason=device_lost}"),
            0);
  EXPECT_GE(value(f, "modeld_resident_bytes", "modeld_resident_bytes{process=cabin-fallback}"), 0);
}

TEST_F(HealthTest, UnusableFramesAreCountedByCause) {
  run_frame();
  camera_->publish(now_ - 400 * kMs);
  FrameSet set;
  EXPECT_FALSE(pair_->sync().match(camera_->client(), set, now_));
  const Families f = read();
  EXPECT_EQ(value(f, "modeld_frames_unusable_total",
                  "modeld_frames_unusable_total{cause=old,model=cabin}"),
            1);
  EXPECT_EQ(value(f, "modeld_frames_unusable_total",
                  "modeld_frames_unusable_total{cause=alone,model=cabin}"),
            0);
}

// The end of Health is the end of its writer: what it took last is in the file.
TEST_F(HealthTest, TheFileHoldsTheTextOfItsMoment) {
  run_frame();
  health_->publish(now_, {});
  run_frame();
  health_.reset();
  const auto text = read_text(file());
  ASSERT_TRUE(text.ok()) << text.error().what;
  const auto parsed = testing_prometheus::parse(*text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().what;
  EXPECT_EQ(
      value(*parsed, "modeld_frames_accepted_total", "modeld_frames_accepted_total{model=cabin}"),
      1);
  EXPECT_FALSE(file_exists(file() + ".new"));
}

}  // namespace
}  // namespace modeld::daemon
