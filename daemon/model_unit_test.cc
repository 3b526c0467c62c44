#include "daemon/model_unit.h"

#include <fstream>

#include "hal/base/fs.h"

#include "ipc/frame_server.h"

#include "daemon/test_fakes.h"

namespace modeld::daemon {
namespace {

constexpr int64_t kMs = 1'000'000;

// A cabin model on fake worker, fake time and a real camera channel.
class ModelUnitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::create("unit");
    ASSERT_TRUE(dir.ok());
    dir_ = std::make_unique<TempDir>(std::move(*dir));
    config_.name = "cabin";
    config_.bundle = dir_->path() + "/cabin.bundle";
    camera_ = std::make_unique<TestCamera>(dir_->path());
    unit_ = std::make_unique<ModelUnit>(config_, WorkerSetup{}, worker_, topic_);
    vehicle_.calibration_known = true;
  }

  Feed feed() {
    if (fresh_vehicle_) vehicle_.time_ns = now_;
    return {&vehicle_, true};
  }
  void tick(int64_t ms = 0) {
    now_ += ms * kMs;
    unit_->tick(now_, feed());
  }
  void run_for(int64_t ms) {
    for (int64_t t = 0; t < ms; t += 5) tick(5);
  }
  void load(uint32_t context = 0) {
    tick();
    worker_.phase(WorkerEvent::Kind::kSelftest);
    worker_.phase(WorkerEvent::Kind::kHello, context);
    tick(1);
    ASSERT_TRUE(unit_->set_buffers(camera_->buffers(), camera_->fds(), now_).ok());
  }
  // Publishes a frame and hands it over; false if the unit does not want it.
  bool frame() {
    camera_->publish(now_);
    FrameSet set;
    if (!unit_->wants_frame(now_, feed()) || !unit_->sync().match(camera_->client(), set, now_))
      return false;
    unit_->hand_over(std::move(set), feed(), now_);
    return true;
  }
  void good_frame(int64_t took_ms = 10) {
    ASSERT_TRUE(frame());
    worker_.reply(AnswerStatus::kAccepted);
    tick(took_ms);
  }
  Standing standing() const { return {unit_->status().state, unit_->status().reason}; }
  static Standing out(Reason r) { return {ModelState::kUnavailable, r}; }

  std::unique_ptr<TempDir> dir_;
  ModelConfig config_;
  std::unique_ptr<TestCamera> camera_;
  FakeWorker worker_;
  FakeTopic topic_;
  std::unique_ptr<ModelUnit> unit_;
  ipc::VehicleInputs vehicle_;
  bool fresh_vehicle_ = true;
  int64_t now_ = 100'000 * kMs;
};

TEST_F(ModelUnitTest, BecomesReadyWithTheFirstFrameWhenNoContextIsNeeded) {
  load();
  EXPECT_EQ(standing().state, ModelState::kWarming);
  good_frame();
  EXPECT_EQ(standing().state, ModelState::kReady);
  EXPECT_TRUE(topic_.sent.back().header.valid);
  EXPECT_TRUE(worker_.jobs[0].reset);
}

TEST_F(ModelUnitTest, ContextMustBeFullBeforeAValidMessage) {
  load(3);
  for (int i = 0; i < 3; ++i) {
    good_frame();
    EXPECT_EQ(standing().state, ModelState::kWarming) << i;
    EXPECT_FALSE(topic_.sent.back().header.valid);
    tick(40);
  }
  good_frame();
  EXPECT_EQ(standing().state, ModelState::kReady);
  EXPECT_TRUE(topic_.sent.back().header.valid);
  EXPECT_EQ(topic_.sent.back().run.since_reset, 4U);
  EXPECT_FALSE(worker_.jobs[1].reset);
}

TEST_F(ModelUnitTest, NoAnswerInTimeKillsTheWorkerAndItComesBack) {
  load();
  good_frame();
  ASSERT_TRUE(frame());
  tick(149);
  EXPECT_EQ(standing().state, ModelState::kReady);
  tick(2);
  EXPECT_EQ(standing(), out(Reason::kTimeout));
  EXPECT_EQ(worker_.kills, 1);
  run_for(200);  // reaped, back-off
  EXPECT_EQ(worker_.starts, 2);
  EXPECT_EQ(standing().state, ModelState::kLoading);
  worker_.phase(WorkerEvent::Kind::kSelftest);
  worker_.phase(WorkerEvent::Kind::kHello);
  tick(5);
  good_frame();
  EXPECT_EQ(standing().state, ModelState::kReady);
  EXPECT_EQ(unit_->status().unavailable_after_ready, 1U);
}

TEST_F(ModelUnitTest, UnavailableIsHeartbeatsForASecondThenSilence) {
  load();
  good_frame();
  ASSERT_TRUE(frame());
  worker_.reply(AnswerStatus::kNonFinite, Reason::kNonFinite, "outputs[3] is nan");
  tick(10);
  EXPECT_EQ(standing(), out(Reason::kNonFinite));
  EXPECT_EQ(unit_->status().text, "outputs[3] is nan");
  const size_t before = topic_.sent.size();
  run_for(1000);
  const size_t after = topic_.sent.size() - before;
  EXPECT_GE(after, 17U);
  EXPECT_LE(after, 21U);
  for (size_t i = before; i < topic_.sent.size(); ++i) EXPECT_FALSE(topic_.sent[i].header.valid);
  run_for(200);
  const size_t quiet = topic_.sent.size();
  run_for(1000);
  EXPECT_EQ(topic_.sent.size(), quiet);
}

TEST_F(ModelUnitTest, NonFiniteResetsAndTheNextCleanFrameIsValidAgain) {
  load();
  good_frame();
  ASSERT_TRUE(frame());
  worker_.reply(AnswerStatus::kNonFinite, Reason::kNonFinite);
  tick(10);
  EXPECT_FALSE(topic_.sent.back().header.valid);
  tick(40);
  good_frame();
  EXPECT_TRUE(worker_.jobs.back().reset);
  EXPECT_EQ(standing().state, ModelState::kReady);
  EXPECT_EQ(worker_.kills, 0);
  EXPECT_EQ(unit_->status().resets, 2U);
}

TEST_F(ModelUnitTest, ParsedNumbersMustBeFiniteToo) {
  load();
  topic_.parse_fails = true;
  good_frame();
  EXPECT_EQ(standing(), out(Reason::kNonFinite));
  EXPECT_FALSE(topic_.sent.back().header.valid);
}

TEST_F(ModelUnitTest, StaleVehicleInputStopsRunsAfterTheGrace) {
  load();
  good_frame();
  run_for(900);
  fresh_vehicle_ = false;
  for (int i = 0; i < 9; ++i) {
    good_frame(5);
    tick(45);
  }
  EXPECT_EQ(standing().state, ModelState::kReady);
  run_for(100);
  EXPECT_EQ(standing(), out(Reason::kInputStale));
  EXPECT_FALSE(frame());
  fresh_vehicle_ = true;
  tick(5);
  good_frame();
  EXPECT_EQ(standing().state, ModelState::kReady);
}

TEST_F(ModelUnitTest, UnknownCalibrationIsInputStaleAndNoRun) {
  vehicle_.calibration_known = false;
  load();
  EXPECT_FALSE(frame());
  run_for(900);
  EXPECT_EQ(standing().state, ModelState::kWarming);
  run_for(200);
  EXPECT_EQ(standing(), out(Reason::kInputStale));
  EXPECT_EQ(unit_->status().text, "calibration unknown");
  EXPECT_TRUE(worker_.jobs.empty());
}

TEST_F(ModelUnitTest, NoFrameFor150MsIsACameraFault) {
  load();
  for (int i = 0; i < 30; ++i) {
    good_frame(5);
    tick(45);
  }
  EXPECT_EQ(standing().state, ModelState::kReady);
  run_for(90);
  EXPECT_EQ(standing().state, ModelState::kReady);
  run_for(30);
  EXPECT_EQ(standing(), out(Reason::kCameraFault));
  EXPECT_EQ(worker_.kills, 0);
}

TEST_F(ModelUnitTest, FourLateFramesOfAHundredDegrade) {
  load();
  good_frame();
  for (int i = 0; i < 3; ++i) good_frame(60);
  EXPECT_EQ(standing().state, ModelState::kReady);
  good_frame(60);
  EXPECT_EQ(standing().state, ModelState::kDegraded);
  EXPECT_EQ(standing().reason, Reason::kTimeout);
  EXPECT_TRUE(topic_.sent.back().header.valid);
  EXPECT_TRUE(topic_.sent.back().header.degraded);
  for (int i = 0; i < 100; ++i) good_frame(10);
  EXPECT_EQ(standing().state, ModelState::kReady);
}

TEST_F(ModelUnitTest, AWorkerThatDiesIsDeviceLostWhenRunningAndLoadFailedWhenLoading) {
  tick();
  worker_.exit("worker ended by signal 11");
  tick(5);
  EXPECT_EQ(standing(), out(Reason::kLoadFailed));
  run_for(300);
  ASSERT_EQ(worker_.starts, 2);
  worker_.phase(WorkerEvent::Kind::kSelftest);
  worker_.phase(WorkerEvent::Kind::kHello);
  tick(5);
  worker_.exit("worker ended by signal 11");
  tick(5);
  EXPECT_EQ(standing(), out(Reason::kDeviceLost));
  EXPECT_EQ(unit_->status().text, "worker ended by signal 11");
}

// One that floods the hop takes no time from the others.
TEST_F(ModelUnitTest, AWorkerIsHeardOnlySoOftenPerTick) {
  load();
  for (size_t i = 0; i < 10 * kEventsPerTick; ++i) worker_.phase(WorkerEvent::Kind::kSelftest);
  tick(1);
  EXPECT_EQ(worker_.events.size(), 9 * kEventsPerTick);
}

TEST_F(ModelUnitTest, LoadingHasALimit) {
  config_.load_s = 2;
  unit_ = std::make_unique<ModelUnit>(config_, WorkerSetup{}, worker_, topic_);
  tick();
  run_for(1990);
  EXPECT_EQ(standing().state, ModelState::kLoading);
  run_for(30);
  EXPECT_EQ(standing(), out(Reason::kLoadFailed));
  EXPECT_EQ(worker_.kills, 1);
}

TEST_F(ModelUnitTest, AWorkerThatDoesNotDieIsDeviceLostAndGetsNoSecond) {
  worker_.dies_when_killed = false;
  load();
  good_frame();
  ASSERT_TRUE(frame());
  tick(160);
  EXPECT_EQ(standing(), out(Reason::kTimeout));
  run_for(1900);
  EXPECT_EQ(standing(), out(Reason::kTimeout));
  run_for(200);
  EXPECT_EQ(standing(), out(Reason::kDeviceLost));
  run_for(10000);
  EXPECT_EQ(worker_.starts, 1);
  worker_.exit("worker ended by signal 9");
  run_for(6000);
  EXPECT_EQ(worker_.starts, 2);
}

// However often it died: the pause doubles to its limit and stays there, and starts over once the
// model was well for a while.
TEST_F(ModelUnitTest, AWorkerThatKeepsDyingIsStartedAgainForEver) {
  // The time from its end to the next one's start.
  const auto pause_after_death = [&] {
    const int before = worker_.starts;
    worker_.exit("worker ended by signal 11");
    tick(5);
    const int64_t died_ns = now_;
    for (int i = 0; worker_.starts == before && i < 2000; ++i) tick(5);
    EXPECT_EQ(worker_.starts, before + 1);
    return now_ - died_ns;
  };
  tick();
  int64_t pause_ns = kFirstBackOffNs;
  for (int deaths = 1; deaths <= 50; ++deaths) {
    EXPECT_EQ(pause_after_death(), pause_ns) << deaths;
    pause_ns = std::min(2 * pause_ns, kLongestBackOffNs);
  }
  load();
  for (int64_t t = 0; t <= kGoodForNs + 100 * kMs; t += 50 * kMs) good_frame(50);
  EXPECT_EQ(pause_after_death(), kFirstBackOffNs);
}

TEST_F(ModelUnitTest, ABadBundleIsTriedAgainOnlyWhenTheFileChanges) {
  tick();
  worker_.fail(Reason::kBundleInvalid, "bundle cabin.bundle: hash of section 2 differs");
  worker_.exit("worker ended with exit code 1");
  tick(5);
  EXPECT_EQ(standing(), out(Reason::kBundleInvalid));
  run_for(5000);
  EXPECT_EQ(worker_.starts, 1);
  std::ofstream(config_.bundle) << "another file";
  run_for(1100);
  EXPECT_EQ(worker_.starts, 2);
}

TEST_F(ModelUnitTest, ReloadTriesAgainAtOnce) {
  tick();
  worker_.fail(Reason::kCompileFailed, "call 3 (r_64) of entry run has no binary");
  worker_.exit("worker ended with exit code 1");
  tick(5);
  std::ofstream(config_.bundle) << "same file";
  unit_->reload(WorkerSetup{}, config_, false, now_);
  run_for(50);
  EXPECT_EQ(worker_.starts, 2);
}

TEST_F(ModelUnitTest, FramesGoBackWhenAnsweredOrReaped) {
  load();
  for (int i = 0; i < 40; ++i) good_frame();
  worker_.dies_when_killed = false;
  ASSERT_TRUE(frame());
  tick(160);
  worker_.exit("gone");
  tick(5);
  camera_->server().service();
  // Every slot but the ones the client may hold unread is free again.
  for (int i = 0; i < 8; ++i)
    EXPECT_TRUE(camera_->server().begin_frame(ipc::StreamId::kCabin).has_value());
}

TEST_F(ModelUnitTest, AnAnswerSeenMuchLaterIsNoValidOutput) {
  load();
  good_frame();
  const size_t sent = topic_.sent.size();
  ASSERT_TRUE(frame());
  // The supervisor itself was stopped meanwhile: the answer lies there, two seconds old.
  worker_.reply(AnswerStatus::kAccepted);
  tick(2000);
  ASSERT_GT(topic_.sent.size(), sent);
  for (size_t i = sent; i < topic_.sent.size(); ++i) EXPECT_FALSE(topic_.sent[i].header.valid);
  good_frame();
  EXPECT_TRUE(topic_.sent.back().header.valid);
  EXPECT_EQ(worker_.kills, 0);
}

TEST_F(ModelUnitTest, AnAnswerReadyAfterTheDeadlineIsATimeout) {
  load();
  good_frame();
  const size_t sent = topic_.sent.size();
  ASSERT_TRUE(frame());
  worker_.reply(AnswerStatus::kAccepted, Reason::kNone, "", now_ + 151 * kMs);
  tick(160);
  EXPECT_EQ(standing(), out(Reason::kTimeout));
  for (size_t i = sent; i < topic_.sent.size(); ++i) EXPECT_FALSE(topic_.sent[i].header.valid);
}

TEST_F(ModelUnitTest, AFrameOfThePastIsNotRun) {
  load();
  camera_->publish(now_ - 400 * kMs);
  FrameSet set;
  EXPECT_TRUE(unit_->wants_frame(now_, feed()));
  EXPECT_FALSE(unit_->sync().match(camera_->client(), set, now_));
  run_for(1100);
  EXPECT_EQ(standing(), out(Reason::kCameraFault));
  EXPECT_EQ(unit_->status().text, "no frame for 150 ms: frame 1 began 400 ms ago");
}

TEST_F(ModelUnitTest, VehicleInputsDatedInTheFutureAreStale) {
  load();
  for (int i = 0; i < 25; ++i) {
    good_frame(5);
    tick(45);
  }
  fresh_vehicle_ = false;
  vehicle_.time_ns = now_ + 3600'000 * kMs;
  EXPECT_FALSE(frame());
  tick(10);
  EXPECT_EQ(standing(), out(Reason::kInputStale));
  EXPECT_EQ(unit_->status().text, "vehicle inputs are dated in the future");
}

TEST_F(ModelUnitTest, AnotherPictureSizeEndsTheWorker) {
  load();
  good_frame();
  CameraBuffers same = camera_->buffers();
  same.epoch += 1;
  ASSERT_TRUE(unit_->set_buffers(same, camera_->fds(), now_).ok());
  EXPECT_EQ(worker_.kills, 0);
  CameraBuffers other = same;
  other.epoch += 1;
  other.streams[0].info.geometry = *ipc::nv12_geometry(128, 96);
  ASSERT_TRUE(unit_->set_buffers(other, camera_->fds(), now_).ok());
  EXPECT_EQ(standing(), out(Reason::kCameraFault));
  EXPECT_EQ(worker_.kills, 1);
  run_for(200);
  EXPECT_EQ(worker_.starts, 2);
}

TEST_F(ModelUnitTest, AChangedConfigurationStartsAgainAndSaysSo) {
  load();
  good_frame();
  unit_->reload(WorkerSetup{}, config_, true, now_);
  EXPECT_EQ(standing(), out(Reason::kConfig));
  EXPECT_EQ(worker_.kills, 1);
  run_for(200);
  EXPECT_EQ(standing().state, ModelState::kLoading);
  EXPECT_EQ(worker_.starts, 2);
}

TEST_F(ModelUnitTest, ARefusedUnitTellsItsReasonAndStartsNothing) {
  unit_->refuse(Reason::kPrivilege, now_, "privilege: /dev/shm/msgq_can can be opened");
  run_for(3000);
  EXPECT_EQ(standing(), out(Reason::kPrivilege));
  EXPECT_EQ(worker_.starts, 0);
  EXPECT_GE(topic_.sent.size(), 19U);
}

TEST_F(ModelUnitTest, HeartbeatsComeAtTwentyHertzWhateverTheSteps) {
  load(100);
  topic_.sent.clear();
  for (int i = 0; i < 200; ++i) tick(i % 2 == 0 ? 7 : 13);
  EXPECT_NEAR(static_cast<double>(topic_.sent.size()), 40, 1);
}

TEST_F(ModelUnitTest, ARunUnderWayWhenAFaultResetsTheModelDoesNotCount) {
  load();
  for (int i = 0; i < 25; ++i) {
    good_frame(5);
    tick(45);
  }
  ASSERT_TRUE(frame());
  vehicle_.calibration_known = false;
  tick(5);
  ASSERT_EQ(standing(), out(Reason::kInputStale));
  const uint64_t accepted = unit_->status().frames_accepted;
  worker_.reply(AnswerStatus::kAccepted);
  tick(5);
  EXPECT_EQ(standing(), out(Reason::kInputStale));
  EXPECT_FALSE(topic_.sent.back().header.valid);
  EXPECT_EQ(unit_->status().frames_accepted, accepted);
  vehicle_.calibration_known = true;
  good_frame();
  EXPECT_TRUE(worker_.jobs.back().reset);
  EXPECT_EQ(topic_.sent.back().run.since_reset, 1U);
}

TEST_F(ModelUnitTest, AHeartbeatDoesNotTakeTheTimesOfTheRunUnderWay) {
  load();
  tick(60);
  ASSERT_TRUE(frame());
  const int64_t sof = now_;
  tick(45);  // a heartbeat is due while the frame runs
  ASSERT_FALSE(topic_.sent.back().header.valid);
  EXPECT_EQ(topic_.sent.back().timings.sof_ns, 0);
  worker_.reply(AnswerStatus::kAccepted);
  tick(20);
  ASSERT_TRUE(topic_.sent.back().header.valid);
  EXPECT_EQ(topic_.sent.back().timings.sof_ns, sof);
}

TEST_F(ModelUnitTest, MessagesCarryTheShareOfLostFrames) {
  load();
  for (int i = 0; i < 10; ++i) good_frame();
  EXPECT_EQ(topic_.sent.back().frame_drop_percent, 0);
  for (int i = 0; i < 3; ++i) camera_->publish(now_);
  good_frame();
  EXPECT_NEAR(topic_.sent.back().frame_drop_percent, 1.47F, 0.01F);
}

TEST_F(ModelUnitTest, TheOtherBundleOfAPairGetsItsChance) {
  const std::string dir = dir_->path() + "/cabin";
  ASSERT_TRUE(make_dirs(dir).ok());
  std::ofstream(dir + "/a.bundle") << "old";
  std::ofstream(dir + "/b.bundle") << "new";
  std::ofstream(dir + "/active") << "b\n";
  config_.bundle = dir;
  unit_ = std::make_unique<ModelUnit>(config_, WorkerSetup{}, worker_, topic_);
  tick();
  EXPECT_EQ(worker_.last_setup.bundle, dir + "/b.bundle");
  worker_.phase(WorkerEvent::Kind::kSelftest);
  worker_.fail(Reason::kSelftestFailed, "golden/run: outputs[3] differs");
  worker_.exit("worker ended with exit code 1");
  tick(5);
  EXPECT_EQ(standing(), out(Reason::kSelftestFailed));
  run_for(300);
  ASSERT_EQ(worker_.starts, 2);
  EXPECT_EQ(worker_.last_setup.bundle, dir + "/a.bundle");
  EXPECT_EQ(*read_text(dir + "/active"), "a\n");
  worker_.phase(WorkerEvent::Kind::kSelftest);
  worker_.phase(WorkerEvent::Kind::kHello);
  tick(5);
  EXPECT_NE(unit_->status().text.find("b.bundle failed (selftest_failed"), std::string::npos)
      << unit_->status().text;
  // The other one failing as well is the end of it.
  worker_.fail(Reason::kBundleInvalid, "damaged");
  worker_.exit("worker ended with exit code 1");
  run_for(5000);
  EXPECT_EQ(worker_.starts, 2);
}

// A folder of two bundles whose active one is b.
class BundleFolderTest : public ModelUnitTest {
 protected:
  void SetUp() override {
    ModelUnitTest::SetUp();
    folder_ = dir_->path() + "/cabin";
    ASSERT_TRUE(make_dirs(folder_).ok());
    std::ofstream(folder_ + "/a.bundle") << "old";
    std::ofstream(folder_ + "/b.bundle") << "new";
    std::ofstream(folder_ + "/active") << "b\n";
    config_.bundle = folder_;
    unit_ = std::make_unique<ModelUnit>(config_, WorkerSetup{}, worker_, topic_);
    tick();
  }
  std::string active() const { return *read_text(folder_ + "/active"); }

  std::string folder_;
};

TEST_F(BundleFolderTest, ABundleThatKillsItsWorkerInTheSelftestMakesRoomForTheOther) {
  worker_.phase(WorkerEvent::Kind::kSelftest);
  worker_.exit("worker ended by signal 11");
  tick(5);
  EXPECT_EQ(standing(), out(Reason::kLoadFailed));
  EXPECT_EQ(active(), "a\n");
  run_for(300);
  EXPECT_EQ(worker_.last_setup.bundle, folder_ + "/a.bundle");
}

TEST_F(BundleFolderTest, WhatIsNotTheBundlesFaultDoesNotSwitch) {
  worker_.exit("worker ended by signal 9");  // while it loads: of the machine
  tick(5);
  EXPECT_EQ(active(), "b\n");
  run_for(300);
  ASSERT_EQ(worker_.starts, 2);
  worker_.fail(Reason::kConfig, "device cpv: unknown");
  worker_.exit("worker ended with exit code 1");
  tick(5);
  EXPECT_EQ(standing(), out(Reason::kConfig));
  EXPECT_EQ(active(), "b\n");
  unit_->reload(WorkerSetup{}, config_, true, now_);
  tick(5);
  ASSERT_EQ(worker_.starts, 3);
  unit_->reload(WorkerSetup{}, config_, true, now_);
  EXPECT_EQ(standing(), out(Reason::kConfig));
  EXPECT_EQ(active(), "b\n");
  unit_->refuse(Reason::kPrivilege, now_, "sendcan can be opened");
  EXPECT_EQ(active(), "b\n");
}

TEST_F(BundleFolderTest, AnActiveFileThatCannotBeWrittenDoesNotStopTheOtherBundle) {
  ASSERT_EQ(rename((folder_ + "/active").c_str(), (folder_ + "/old").c_str()), 0);
  ASSERT_TRUE(make_dirs(folder_ + "/active/in-the-way").ok());
  // It was read when the worker was started.
  worker_.fail(Reason::kBundleInvalid, "damaged");
  worker_.exit("worker ended with exit code 1");
  tick(5);
  run_for(300);
  ASSERT_EQ(worker_.starts, 2);
  EXPECT_EQ(worker_.last_setup.bundle, folder_ + "/a.bundle");
  EXPECT_NE(unit_->status().text.find("using a.bundle for now ("), std::string::npos)
      << unit_->status().text;
}

TEST_F(BundleFolderTest, ABundleThatIsWrittenToWhileItRunsIsNotTrusted) {
  load();
  good_frame();
  ASSERT_EQ(standing().state, ModelState::kReady);
  // Another file of the same name: the worker keeps the one that it has.
  ASSERT_TRUE(write_text_atomic(folder_ + "/b.bundle", "newer").ok());
  good_frame();
  ASSERT_EQ(standing().state, ModelState::kReady);
  unit_->reload(WorkerSetup{}, config_, false, now_);
  run_for(200);
  load();
  good_frame();
  ASSERT_EQ(worker_.starts, 2);
  ASSERT_TRUE(topic_.sent.back().header.valid);
  std::ofstream(folder_ + "/b.bundle") << "other bytes";
  good_frame();
  EXPECT_FALSE(topic_.sent.back().header.valid);
  EXPECT_EQ(standing(), out(Reason::kBundleInvalid));
  EXPECT_NE(unit_->status().text.find("b.bundle was written to while it ran"), std::string::npos)
      << unit_->status().text;
  EXPECT_EQ(active(), "b\n");
  run_for(1200);
  EXPECT_EQ(worker_.starts, 3);
}

TEST_F(BundleFolderTest, AReloadLoadsWhatBecameActive) {
  worker_.phase(WorkerEvent::Kind::kSelftest);
  worker_.phase(WorkerEvent::Kind::kHello);
  tick(5);
  for (int i = 0; i < 3; ++i) {  // nothing changed, however often it is asked
    unit_->reload(WorkerSetup{}, config_, false, now_);
    run_for(300);
    EXPECT_EQ(standing().state, ModelState::kWarming);
    EXPECT_EQ(worker_.starts, 1);
  }
  ASSERT_TRUE(write_text_atomic(folder_ + "/active", "a\n").ok());
  unit_->reload(WorkerSetup{}, config_, false, now_);
  run_for(300);
  ASSERT_EQ(worker_.starts, 2);
  EXPECT_EQ(worker_.last_setup.bundle, folder_ + "/a.bundle");
}

TEST_F(ModelUnitTest, BuffersThatDoNotReachTheWorkerAreSentAgain) {
  worker_.refusals = 2;
  load();
  EXPECT_FALSE(frame());
  tick(5);
  tick(5);
  good_frame();
  EXPECT_EQ(standing().state, ModelState::kReady);
}

TEST_F(ModelUnitTest, AWorkerThatDiesWhileItsInputsAreMissingIsTold) {
  load();
  good_frame();
  run_for(1300);
  ASSERT_EQ(standing(), out(Reason::kCameraFault));
  worker_.exit("worker ended by signal 11");
  tick(5);
  EXPECT_EQ(standing(), out(Reason::kDeviceLost));
  EXPECT_EQ(unit_->status().text, "worker ended by signal 11");
  EXPECT_EQ(unit_->status().unavailable_entries, 1U);
}

TEST_F(ModelUnitTest, ACauseThatIsGoneMakesRoomForTheOneThatIsLeft) {
  load();
  fresh_vehicle_ = false;
  vehicle_.time_ns = 0;
  run_for(1100);
  ASSERT_EQ(standing(), out(Reason::kInputStale));
  fresh_vehicle_ = true;
  tick(5);
  EXPECT_EQ(standing(), out(Reason::kInputStale));  // a frame may still come
  run_for(160);
  EXPECT_EQ(standing(), out(Reason::kCameraFault));
  EXPECT_EQ(unit_->status().unavailable_entries, 1U);
  // Both are missing: the first stays.
  fresh_vehicle_ = false;
  run_for(1600);
  EXPECT_EQ(standing(), out(Reason::kCameraFault));
  // The camera came back, and another one of the other kind is left.
  ASSERT_TRUE(unit_->set_buffers(camera_->buffers(), camera_->fds(), now_).ok());
  run_for(1100);
  EXPECT_EQ(standing(), out(Reason::kInputStale));
  fresh_vehicle_ = true;
  vehicle_.calibration_known = false;
  tick(5);
  EXPECT_EQ(unit_->status().text, "calibration unknown");
  vehicle_.calibration_known = true;
  tick(5);
  good_frame();
  EXPECT_EQ(standing().state, ModelState::kReady);
}

TEST_F(ModelUnitTest, ANonsensePointerIsBundleInvalid) {
  const std::string dir = dir_->path() + "/cabin";
  ASSERT_TRUE(make_dirs(dir).ok());
  std::ofstream(dir + "/active") << "c\n";
  config_.bundle = dir;
  unit_ = std::make_unique<ModelUnit>(config_, WorkerSetup{}, worker_, topic_);
  tick();
  EXPECT_EQ(standing(), out(Reason::kBundleInvalid));
  EXPECT_NE(unit_->status().text.find("must hold a or b"), std::string::npos);
  EXPECT_EQ(worker_.starts, 0);
}

}  // namespace
}  // namespace modeld::daemon
