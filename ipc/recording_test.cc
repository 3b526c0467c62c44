#include "ipc/recording.h"

#include "hal/base/fs.h"

namespace modeld::ipc {
namespace {

RoadMessage road_run(uint64_t resets, uint64_t since, uint64_t frame) {
  RoadMessage m;
  m.header.time_ns = static_cast<int64_t>(frame) * 100;
  m.run = RunIdentity{resets, since, true};
  m.road_frame_id = frame;
  m.wide_frame_id = frame;
  m.vehicle.speed = static_cast<float>(frame);
  m.raw = {1, 2, static_cast<float>(frame)};
  return m;
}

Recording sample() {
  Recorder recorder;
  StateMessage state;
  state.source = "synth;seed=1;road=64x48";
  recorder.observe(state);
  recorder.observe(road_run(0, 1, 10));
  CabinMessage cabin;
  cabin.header.time_ns = 1050;
  cabin.run = RunIdentity{0, 1, true};
  cabin.cabin_frame_id = 10;
  cabin.raw = {7};
  recorder.observe(cabin);
  recorder.observe(road_run(0, 2, 11));
  return recorder.finish();
}

TEST(Recording, RoundTripKeepsEverythingInTimeOrder) {
  const Recording in = sample();
  ASSERT_EQ(in.runs.size(), 3u);
  EXPECT_EQ(in.runs[1].model, RecordedModel::kCabin);
  const auto out = parse_recording(encode_recording(in));
  ASSERT_TRUE(out.ok()) << out.error().what;
  EXPECT_EQ(out->source, "synth;seed=1;road=64x48");
  EXPECT_EQ(out->runs, in.runs);
}

TEST(Recording, FileRoundTripAndErrorNamesTheFile) {
  const TempDir dir = std::move(*TempDir::create("ipc"));
  const std::string path = dir.path() + "/a.rec";
  ASSERT_TRUE(write_recording(path, sample()).ok());
  EXPECT_EQ(read_recording(path)->runs, sample().runs);
  ASSERT_TRUE(write_text_atomic(path, "not a recording, but long enough to be one").ok());
  EXPECT_THAT(read_recording(path).error().what, testing::HasSubstr(path));
}

TEST(Recording, EveryTruncationIsAnError) {
  const auto bytes = encode_recording(sample());
  for (size_t n = 0; n < bytes.size(); ++n)
    ASSERT_FALSE(parse_recording(std::span(bytes).first(n)).ok()) << n;
}

TEST(Recording, EveryFlippedBitIsAnError) {
  const auto bytes = encode_recording(sample());
  for (size_t n = 0; n < bytes.size(); ++n) {
    auto bad = bytes;
    bad[n] ^= std::byte{static_cast<uint8_t>(1u << (n % 8))};
    ASSERT_FALSE(parse_recording(bad).ok()) << n;
  }
}

TEST(Recorder, JoiningInTheMiddleWaitsForTheNextReset) {
  Recorder recorder;
  recorder.observe(road_run(0, 5, 5));
  EXPECT_EQ(recorder.runs(RecordedModel::kRoad), 0u);
  EXPECT_THAT(recorder.why_empty(RecordedModel::kRoad),
              testing::HasSubstr("after the model's last reset"));
  recorder.observe(road_run(1, 1, 9));
  recorder.observe(road_run(1, 2, 10));
  EXPECT_EQ(recorder.runs(RecordedModel::kRoad), 2u);
  EXPECT_EQ(recorder.why_empty(RecordedModel::kRoad), "");
}

TEST(Recorder, ALostMessageEndsTheChainUntilTheNextReset) {
  Recorder recorder;
  recorder.observe(road_run(0, 1, 1));
  recorder.observe(road_run(0, 2, 2));
  recorder.observe(road_run(0, 4, 4));
  recorder.observe(road_run(0, 5, 5));
  EXPECT_EQ(recorder.runs(RecordedModel::kRoad), 2u);
  recorder.observe(road_run(1, 1, 6));
  EXPECT_EQ(recorder.runs(RecordedModel::kRoad), 3u);
}

// What a recording lacks is told: it used to be cut in silence.
TEST(Recorder, CountsTheRunsOfAMissedMessageAndThoseAfterIt) {
  Recorder recorder;
  recorder.observe(road_run(0, 1, 1));
  EXPECT_EQ(recorder.left_out(RecordedModel::kRoad).text(), "");
  recorder.observe(road_run(0, 4, 4));  // 2 and 3 were missed
  recorder.observe(road_run(0, 5, 5));
  recorder.observe(road_run(1, 1, 6));
  EXPECT_EQ(recorder.left_out(RecordedModel::kRoad), LeftOut{.after_missed = 4});
  EXPECT_EQ(recorder.left_out(RecordedModel::kRoad).text(),
            "4 runs left out: 4 missed, or after a missed message until the next reset");
  EXPECT_EQ(recorder.left_out(RecordedModel::kCabin), LeftOut());
}

TEST(Recorder, CountsTheRunsBeforeItsFirstResetAndWithoutRaw) {
  Recorder recorder;
  recorder.observe(road_run(0, 7, 1));
  recorder.observe(road_run(1, 1, 2));
  RoadMessage without = road_run(1, 2, 3);
  without.raw.clear();
  recorder.observe(without);
  recorder.observe(road_run(1, 3, 4));
  EXPECT_EQ(recorder.left_out(RecordedModel::kRoad),
            (LeftOut{.before_reset = 1, .without_raw = 2}));
}

TEST(Recorder, CountsTheRunsBeyondItsLimit) {
  Recorder recorder(1);
  recorder.observe(road_run(0, 1, 1));
  recorder.observe(road_run(0, 2, 2));
  EXPECT_EQ(recorder.runs(RecordedModel::kRoad), 0u);
  EXPECT_EQ(recorder.left_out(RecordedModel::kRoad), LeftOut{.beyond_limit = 2});
  EXPECT_THAT(recorder.why_empty(RecordedModel::kRoad), testing::HasSubstr("limit"));
}

TEST(Recorder, ARestartedDaemonBeginsAnotherChainThoughItCountsFromTheStart) {
  Recorder recorder;
  recorder.observe(road_run(1, 1, 1));
  recorder.observe(road_run(1, 2, 2));
  recorder.observe(road_run(1, 1, 30));
  recorder.observe(road_run(1, 2, 31));
  recorder.observe(road_run(2, 1, 40));
  const Recording all = recorder.finish();
  ASSERT_EQ(all.runs.size(), 5u);
  EXPECT_NE(all.runs[2].resets, all.runs[1].resets) << "two chains look like one";
  EXPECT_EQ(all.runs[3].resets, all.runs[2].resets);
  EXPECT_NE(all.runs[4].resets, all.runs[3].resets);
}

TEST(Recorder, FailedRunsAreNotPartOfIt) {
  Recorder recorder;
  RoadMessage failed = road_run(0, 1, 1);
  failed.run.accepted = false;
  recorder.observe(failed);
  EXPECT_EQ(recorder.runs(RecordedModel::kRoad), 0u);
  EXPECT_EQ(recorder.why_empty(RecordedModel::kRoad), "no accepted run was published");
}

TEST(Recorder, SaysThatRawIsOff) {
  Recorder recorder;
  RoadMessage message = road_run(0, 1, 1);
  message.raw.clear();
  recorder.observe(message);
  EXPECT_THAT(recorder.why_empty(RecordedModel::kRoad), testing::HasSubstr("publish.raw"));
}

}  // namespace
}  // namespace modeld::ipc
