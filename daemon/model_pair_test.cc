#include "daemon/model_pair.h"

#include "daemon/test_fakes.h"

namespace modeld::daemon {
namespace {

constexpr int64_t kMs = 1'000'000;

class ModelPairTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::create("pair");
    ASSERT_TRUE(dir.ok());
    dir_ = std::make_unique<TempDir>(std::move(*dir));
    camera_ = std::make_unique<TestCamera>(dir_->path());
    config_.name = "cabin";
    config_.bundle = dir_->path() + "/cabin.bundle";
    primary_ = std::make_unique<ModelUnit>(config_, WorkerSetup{}, primary_worker_, primary_topic_);
    fallback_ =
        std::make_unique<ModelUnit>(config_, WorkerSetup{}, fallback_worker_, fallback_topic_);
    pair_ = std::make_unique<ModelPair>(*primary_, fallback_.get());
    vehicle_.calibration_known = true;
    ASSERT_TRUE(pair_->set_buffers(camera_->buffers(), camera_->fds(), now_).ok());
  }
  Feed feed() { return {&vehicle_, true}; }
  void tick(int64_t ms) {
    now_ += ms * kMs;
    vehicle_.time_ns = now_;
    pair_->tick(now_, feed());
  }
  static void warm(FakeWorker& w) {
    w.phase(WorkerEvent::Kind::kSelftest);
    w.phase(WorkerEvent::Kind::kHello);
  }
  // A frame for whoever has time; both answer.
  void run_frame() {
    camera_->publish(now_);
    FrameSet set;
    ASSERT_TRUE(pair_->wants_frame(now_, feed()));
    ASSERT_TRUE(pair_->sync().match(camera_->client(), set, now_));
    pair_->hand_over(std::move(set), feed(), now_);
    for (auto* w : {&primary_worker_, &fallback_worker_}) {
      if (w->jobs.size() > w->answered) w->reply(AnswerStatus::kAccepted);
    }
    tick(10);
  }
  void become_ready() {
    tick(1);
    warm(primary_worker_);
    warm(fallback_worker_);
    tick(1);
    run_frame();
  }

  std::unique_ptr<TempDir> dir_;
  std::unique_ptr<TestCamera> camera_;
  ModelConfig config_;
  FakeWorker primary_worker_;
  FakeWorker fallback_worker_;
  FakeTopic primary_topic_;
  FakeTopic fallback_topic_;
  std::unique_ptr<ModelUnit> primary_;
  std::unique_ptr<ModelUnit> fallback_;
  std::unique_ptr<ModelPair> pair_;
  ipc::VehicleInputs vehicle_;
  int64_t now_ = 100'000 * kMs;
};

TEST_F(ModelPairTest, OnlyThePrimarySpeaksWhileItCan) {
  become_ready();
  EXPECT_EQ(pair_->status().state, ModelState::kReady);
  ASSERT_FALSE(primary_topic_.sent.empty());
  EXPECT_TRUE(primary_topic_.sent.back().header.valid);
  EXPECT_FALSE(primary_topic_.sent.back().header.degraded);
  EXPECT_TRUE(fallback_topic_.sent.empty());
}

TEST_F(ModelPairTest, TheFallbackTakesOverDegradedWithThePrimarysReason) {
  become_ready();
  primary_worker_.exit("worker ended by signal 11");
  tick(5);
  EXPECT_EQ(pair_->status().state, ModelState::kDegraded);
  EXPECT_EQ(pair_->status().reason, Reason::kDeviceLost);
  EXPECT_TRUE(pair_->take_changed());
  const size_t primary_sent = primary_topic_.sent.size();
  run_frame();
  EXPECT_EQ(primary_topic_.sent.size(), primary_sent);
  ASSERT_FALSE(fallback_topic_.sent.empty());
  const ipc::Header& h = fallback_topic_.sent.back().header;
  EXPECT_TRUE(h.valid);
  EXPECT_TRUE(h.degraded);
  EXPECT_EQ(h.state, ModelState::kDegraded);
  EXPECT_EQ(h.reason, Reason::kDeviceLost);
}

TEST_F(ModelPairTest, AFrameThatThePrimaryToldIsNotToldAgainByASlowerFallback) {
  become_ready();
  camera_->publish(now_);
  FrameSet set;
  ASSERT_TRUE(pair_->sync().match(camera_->client(), set, now_));
  pair_->hand_over(std::move(set), feed(), now_);
  primary_worker_.reply(AnswerStatus::kAccepted);
  tick(5);
  primary_worker_.exit("worker ended by signal 11");
  tick(5);
  ASSERT_TRUE(pair_->fallback_speaks());
  fallback_worker_.reply(AnswerStatus::kAccepted);
  tick(5);
  for (const auto& told : fallback_topic_.sent) EXPECT_FALSE(told.header.valid);
  run_frame();
  ASSERT_FALSE(fallback_topic_.sent.empty());
  EXPECT_TRUE(fallback_topic_.sent.back().header.valid);
}

TEST_F(ModelPairTest, ThePrimarysReasonStaysWhileItComesBack) {
  become_ready();
  primary_worker_.exit("worker ended by signal 11");
  for (int i = 0; i < 60; ++i) tick(5);
  primary_worker_.phase(WorkerEvent::Kind::kSelftest);
  tick(5);
  ASSERT_EQ(primary_->status().state, ModelState::kSelftest);
  EXPECT_EQ(pair_->status().state, ModelState::kDegraded);
  EXPECT_EQ(pair_->status().reason, Reason::kDeviceLost);
  run_frame();
  EXPECT_EQ(fallback_topic_.sent.back().header.reason, Reason::kDeviceLost);
}

TEST_F(ModelPairTest, ThePrimarySpeaksAgainWhenItIsBack) {
  become_ready();
  primary_worker_.exit("worker ended by signal 11");
  for (int i = 0; i < 60; ++i) tick(5);
  ASSERT_EQ(primary_worker_.starts, 2);
  warm(primary_worker_);
  tick(5);
  run_frame();
  EXPECT_EQ(pair_->status().state, ModelState::kReady);
  run_frame();
  EXPECT_TRUE(primary_topic_.sent.back().header.valid);
}

TEST_F(ModelPairTest, WithoutAReadyFallbackThePrimarysStateIsTheRoles) {
  tick(1);
  warm(primary_worker_);
  tick(1);
  run_frame();
  primary_worker_.exit("worker ended by signal 11");
  tick(5);
  EXPECT_EQ(pair_->status().state, ModelState::kUnavailable);
  EXPECT_EQ(pair_->status().reason, Reason::kDeviceLost);
  tick(60);
  EXPECT_FALSE(primary_topic_.sent.back().header.valid);
}

TEST_F(ModelPairTest, WhenTheFallbackGoesAsWellASecondOfHeartbeatsSaysSo) {
  become_ready();
  primary_worker_.exit("worker ended by signal 11");
  for (int i = 0; i < 500; ++i) {  // the primary's own heartbeats are long over
    tick(5);
    if (i % 10 == 0) run_frame();
  }
  ASSERT_TRUE(pair_->fallback_speaks());
  fallback_worker_.exit("worker ended by signal 11");
  tick(5);
  ASSERT_FALSE(pair_->fallback_speaks());
  EXPECT_NE(pair_->status().state, ModelState::kDegraded);
  const size_t before = primary_topic_.sent.size();
  for (int i = 0; i < 200; ++i) tick(5);
  EXPECT_GE(primary_topic_.sent.size() - before, 17U);
  EXPECT_FALSE(primary_topic_.sent.back().header.valid);
}

TEST_F(ModelPairTest, AHangingPrimaryDoesNotStarveTheFallback) {
  become_ready();
  camera_->publish(now_);
  FrameSet set;
  ASSERT_TRUE(pair_->sync().match(camera_->client(), set, now_));
  pair_->hand_over(std::move(set), feed(), now_);
  fallback_worker_.reply(AnswerStatus::kAccepted);  // the primary does not answer
  tick(60);
  EXPECT_FALSE(pair_->wants_frame(now_, feed()));  // it may still come back for the next one
  tick(20);
  ASSERT_TRUE(pair_->wants_frame(now_, feed()));
  camera_->publish(now_);
  ASSERT_TRUE(pair_->sync().match(camera_->client(), set, now_));
  pair_->hand_over(std::move(set), feed(), now_);
  EXPECT_EQ(fallback_worker_.jobs.size(), 3U);
  EXPECT_EQ(primary_worker_.jobs.size(), 2U);
}

// Every transition of the role is told once, with its reason; the fallback's own under its name.
std::vector<std::string> told;

TEST_F(ModelPairTest, TheRolesTransitionsAreToldWithTheirReason) {
  told.clear();
  for (ModelUnit* u : {primary_.get(), fallback_.get()})
    u->set_tell([](const TransitionNote& n) { told.push_back(transition_line(n)); });
  become_ready();
  const auto times = [](const std::string& begin) {
    return std::count_if(told.begin(), told.end(),
                         [&](const std::string& line) { return line.rfind(begin, 0) == 0; });
  };
  EXPECT_EQ(times("cabin: READY"), 1);
  EXPECT_EQ(times("cabin fallback: READY"), 1);
  primary_worker_.exit("worker ended by signal 11");
  tick(5);
  EXPECT_EQ(times("cabin: UNAVAILABLE(device_lost): worker ended by signal 11"), 1);
  EXPECT_EQ(times("cabin: DEGRADED(device_lost): fallback in use: worker ended by signal 11"), 1);
  fallback_worker_.exit("worker ended by signal 6");
  tick(5);
  EXPECT_EQ(times("cabin fallback: UNAVAILABLE(device_lost): worker ended by signal 6"), 1);
  EXPECT_EQ(times("cabin: UNAVAILABLE(device_lost): the fallback is out as well"), 1);
}

TEST_F(ModelPairTest, BothRunEveryFrameAndItsSlotComesBack) {
  tick(1);
  warm(primary_worker_);
  warm(fallback_worker_);
  tick(1);
  for (int i = 0; i < 50; ++i) run_frame();
  EXPECT_EQ(primary_worker_.jobs.size(), 50U);
  EXPECT_EQ(fallback_worker_.jobs.size(), 50U);
  camera_->server().service();
  for (uint32_t i = 0; i + 2 < ipc::kDefaultSlots; ++i) {
    ASSERT_TRUE(camera_->server().begin_frame(ipc::StreamId::kCabin).has_value());
  }
}

}  // namespace
}  // namespace modeld::daemon
