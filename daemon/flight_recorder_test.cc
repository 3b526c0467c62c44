// Records of failures: what is in them, how many there are, and that the frame loop gets back what
// it lent.
#include "daemon/flight_recorder.h"

#include <sys/stat.h>
#include <unistd.h>

#include "hal/base/mapping.h"

#include "daemon/capture.h"
#include "daemon/test_fakes.h"

namespace modeld::daemon {
namespace {

constexpr int64_t kMs = 1'000'000;

class FlightTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::create("flight");
    ASSERT_TRUE(dir.ok());
    dir_ = std::make_unique<TempDir>(std::move(*dir));
    start(1 << 20);
  }
  std::string records_dir() const { return join_path(dir_->path(), "records"); }
  void start(uint64_t limit_bytes) {
    recorder_.reset();
    FlightOptions o;
    o.dir = records_dir();
    o.limit_bytes = limit_bytes;
    o.runs = 3;
    recorder_ = std::make_unique<FlightRecorder>(o);
  }
  std::vector<std::string> names() const {
    const auto all = list_dir(records_dir());
    return all.ok() ? *all : std::vector<std::string>();
  }
  // The recorder's end waits for what is under way.
  void finish() { recorder_.reset(); }
  ipc::Flight read(const std::string& name) {
    const auto bytes = read_file(join_path(records_dir(), name));
    EXPECT_TRUE(bytes.ok());
    bytes_ = *bytes;
    auto flight = ipc::parse_flight(bytes_);
    EXPECT_TRUE(flight.ok()) << flight.error().what;
    return flight.ok() ? *flight : ipc::Flight();
  }
  static FlightJob job(int64_t time_ns, size_t numbers = 4, bool is_road = true) {
    FlightJob j;
    j.flight.reason = ipc::Reason::kTimeout;
    j.flight.time_ns = time_ns;
    j.flight.failed.frame_id = static_cast<uint64_t>(time_ns / kMs);
    j.flight.failed.model = is_road ? ipc::RecordedModel::kRoad : ipc::RecordedModel::kCabin;
    j.flight.failed.raw.assign(numbers, 1.0F);
    return j;
  }

  std::unique_ptr<TempDir> dir_;
  std::unique_ptr<FlightRecorder> recorder_;
  std::vector<std::byte> bytes_;
};

TEST_F(FlightTest, TheRingKeepsTheLastRuns) {
  FlightRing ring;
  RunReport report;
  ring.note(report, {});  // before prepare(): nothing to keep it in
  ring.prepare(ipc::RecordedModel::kCabin, 3, 4);
  for (uint64_t i = 1; i <= 5; ++i) {
    report.frame_id = i;
    const std::array<float, 2> raw = {static_cast<float>(i), 0};
    ring.note(report, raw);
  }
  const auto runs = ring.runs();
  ASSERT_EQ(runs.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(runs[i].frame_id, i + 3);
    EXPECT_EQ(runs[i].raw[0], static_cast<float>(i + 3));
    EXPECT_EQ(runs[i].model, ipc::RecordedModel::kCabin);
  }
}

TEST_F(FlightTest, WritesWhatTheWorkerTold) {
  auto capture = create_memfd("capture", kCaptureLimitBytes);
  ASSERT_TRUE(capture.ok());
  std::vector<std::byte> bytes = ipc::encode_tensor_count(1);
  const auto head = ipc::encode_tensor_head(false, "img", 4);
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.resize(bytes.size() + 4, std::byte{5});
  ASSERT_EQ(pwrite(capture->get(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  FlightJob j = job(20'000 * kMs);
  j.capture.reset(dup(capture->get()));
  j.capture_bytes = bytes.size();
  recorder_->submit(std::move(j));
  finish();
  ASSERT_EQ(names(), std::vector<std::string>{"road-timeout-frame20000-20000.flight"});
  const ipc::Flight f = read(names()[0]);
  ASSERT_EQ(f.tensors.size(), 1u);
  EXPECT_EQ(f.tensors[0].name, "img");
  struct stat st {};
  ASSERT_EQ(fstat(capture->get(), &st), 0);
  EXPECT_EQ(st.st_blocks, 0) << "the memory file's pages are the machine's again";
}

TEST_F(FlightTest, AWorkerThatToldNonsenseCostsTheTensorsOnly) {
  auto capture = create_memfd("capture", kCaptureLimitBytes);
  ASSERT_TRUE(capture.ok());
  FlightJob j = job(20'000 * kMs);
  j.capture.reset(dup(capture->get()));
  j.capture_bytes = 1000;  // a thousand zeroes: no tensor and bytes left over
  recorder_->submit(std::move(j));
  finish();
  ASSERT_EQ(names().size(), 1u);
  EXPECT_TRUE(read(names()[0]).tensors.empty());
}

TEST_F(FlightTest, PicturesAreWrittenAndTheirSlotsComeBack) {
  TestCamera camera(dir_->path());
  camera.publish(1000 * kMs);
  FlightJob j = job(20'000 * kMs, 4, false);
  j.pictures.push_back(camera.client().take(ipc::StreamId::kCabin));
  ASSERT_TRUE(static_cast<bool>(j.pictures[0]));
  recorder_->submit(std::move(j));
  const Deadline end = Deadline::in_ms(10'000);
  while (!recorder_->is_idle() && !end.has_passed()) {
    recorder_->collect();
    std::this_thread::yield();
  }
  EXPECT_TRUE(recorder_->is_idle());
  EXPECT_EQ(recorder_->written(), 1u);
  const ipc::Flight f = read(names()[0]);
  ASSERT_EQ(f.pictures.size(), 1u);
  EXPECT_EQ(f.pictures[0].width, 64u);
  EXPECT_EQ(f.pictures[0].stream, ipc::StreamId::kCabin);
  EXPECT_EQ(f.pictures[0].nv12.size(), ipc::nv12_geometry(64, 48)->size);
}

TEST_F(FlightTest, TheOldestGoWhenTheLimitIsReached) {
  const size_t one = ipc::encode_flight(job(0, 1000).flight).size();
  start(3 * one);
  for (int64_t i = 1; i <= 5; ++i) {
    recorder_->submit(job(i * 20'000 * kMs, 1000));
    const Deadline end = Deadline::in_ms(10'000);
    while (recorder_->written() < static_cast<uint64_t>(i) && !end.has_passed())
      std::this_thread::yield();
    recorder_->collect();
  }
  finish();
  EXPECT_THAT(names(), testing::ElementsAre("road-timeout-frame100000-100000.flight",
                                            "road-timeout-frame60000-60000.flight",
                                            "road-timeout-frame80000-80000.flight"));
}

TEST_F(FlightTest, ARecordLargerThanTheLimitKeepsTheRunsAlone) {
  FlightJob j = job(20'000 * kMs);
  j.flight.tensors = {{false, "img", std::vector<std::byte>(2 << 20)}};
  recorder_->submit(std::move(j));
  finish();
  ASSERT_EQ(names().size(), 1u);
  const ipc::Flight f = read(names()[0]);
  EXPECT_TRUE(f.tensors.empty());
  EXPECT_EQ(f.failed.raw.size(), 4u);
}

TEST_F(FlightTest, OneRecordInTenSecondsPerModel) {
  recorder_->submit(job(20'000 * kMs));
  recorder_->submit(job(29'000 * kMs));
  recorder_->submit(job(29'000 * kMs, 4, false));
  recorder_->submit(job(30'000 * kMs));
  EXPECT_EQ(recorder_->dropped(), 1u);
  finish();
  EXPECT_EQ(names().size(), 3u);
}

TEST_F(FlightTest, SwitchedOffItKeepsNothing) {
  start(0);
  EXPECT_FALSE(recorder_->is_on());
  recorder_->submit(job(20'000 * kMs));
  EXPECT_TRUE(recorder_->is_idle());
  finish();
  EXPECT_FALSE(file_exists(records_dir()));
}

TEST_F(FlightTest, ADirectoryThatCannotBeIsCountedNotFatal) {
  ASSERT_TRUE(write_text_atomic(records_dir(), "a file is in the way").ok());
  recorder_->submit(job(20'000 * kMs));
  const Deadline end = Deadline::in_ms(10'000);
  while (recorder_->failed() == 0 && !end.has_passed()) std::this_thread::yield();
  EXPECT_EQ(recorder_->failed(), 1u);
}

// ---- a unit's failures ----

class UnitFlight : public FlightTest {
 protected:
  void SetUp() override {
    FlightTest::SetUp();
    camera_ = std::make_unique<TestCamera>(dir_->path());
    config_.name = "cabin";
    config_.bundle = dir_->path() + "/cabin.bundle";
    unit_ = std::make_unique<ModelUnit>(config_, WorkerSetup{}, worker_, topic_);
    unit_->set_flight(recorder_.get());
    vehicle_.calibration_known = true;
    ASSERT_TRUE(unit_->set_buffers(camera_->buffers(), camera_->fds(), now_).ok());
    tick(1);
    worker_.phase(WorkerEvent::Kind::kSelftest);
    worker_.phase(WorkerEvent::Kind::kHello);
    tick(1);
  }
  void tick(int64_t ms) {
    now_ += ms * kMs;
    vehicle_.time_ns = now_;
    unit_->tick(now_, {&vehicle_, true});
  }
  void hand_over() {
    camera_->publish(now_);
    FrameSet set;
    ASSERT_TRUE(unit_->sync().match(camera_->client(), set, now_));
    unit_->hand_over(std::move(set), {&vehicle_, true}, now_);
  }
  ipc::Flight only_record() {
    finish();
    EXPECT_EQ(names().size(), 1u);
    return names().empty() ? ipc::Flight() : read(names()[0]);
  }

  std::unique_ptr<TestCamera> camera_;
  ModelConfig config_;
  FakeWorker worker_;
  FakeTopic topic_;
  std::unique_ptr<ModelUnit> unit_;
  ipc::VehicleInputs vehicle_;
  int64_t now_ = 100'000 * kMs;
};

TEST_F(UnitFlight, ARunWithoutAnAnswerIsKeptWithTheRunsBeforeIt) {
  for (int i = 0; i < 5; ++i) {
    hand_over();
    worker_.reply(AnswerStatus::kAccepted);
    tick(50);
  }
  hand_over();
  EXPECT_TRUE(worker_.jobs.back().may_capture);
  tick(151);
  const ipc::Flight f = only_record();
  EXPECT_EQ(f.reason, ipc::Reason::kTimeout);
  EXPECT_EQ(f.failed.frame_id, 6u);
  EXPECT_TRUE(f.failed.raw.empty());
  ASSERT_EQ(f.before.size(), 3u);
  EXPECT_EQ(f.before.back().frame_id, 5u);
  EXPECT_EQ(f.before.back().raw, (std::vector<float>{1, 2, 3, 4}));
  ASSERT_EQ(f.pictures.size(), 1u) << "the worker tells nothing any more: what it was fed with";
  EXPECT_EQ(f.pictures[0].frame_id, 6u);
}

TEST_F(UnitFlight, ABadOutputIsKeptAsItWas) {
  hand_over();
  worker_.reply(AnswerStatus::kNonFinite, ipc::Reason::kNonFinite, "outputs[3] is nan");
  tick(10);
  const ipc::Flight f = only_record();
  EXPECT_EQ(f.reason, ipc::Reason::kNonFinite);
  EXPECT_EQ(f.text, "outputs[3] is nan");
  EXPECT_EQ(f.failed.raw, (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(UnitFlight, AWorkerThatDiesBetweenRunsIsNoFailureOfARun) {
  hand_over();
  worker_.reply(AnswerStatus::kAccepted);
  tick(10);
  worker_.exit("worker ended by signal 11");
  tick(10);
  EXPECT_EQ(unit_->status().reason, ipc::Reason::kDeviceLost);
  finish();
  EXPECT_TRUE(names().empty());
}

TEST_F(UnitFlight, AWorkerThatDiesInARunIsAFailureOfIt) {
  hand_over();
  worker_.exit("worker ended by signal 11");
  tick(10);
  const ipc::Flight f = only_record();
  EXPECT_EQ(f.reason, ipc::Reason::kDeviceLost);
  EXPECT_EQ(f.failed.frame_id, 1u);
}

TEST_F(UnitFlight, FaultsOfTheInputsAreNoFailuresOfARun) {
  hand_over();
  worker_.reply(AnswerStatus::kAccepted);
  tick(10);
  for (int i = 0; i < 100; ++i) tick(20);
  EXPECT_EQ(unit_->status().reason, ipc::Reason::kCameraFault);
  finish();
  EXPECT_TRUE(names().empty());
}

}  // namespace
}  // namespace modeld::daemon
