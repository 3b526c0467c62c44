#include "ipc/tools/camera_args.h"

#include "hal/base/fs.h"

#include "ipc/recording.h"

namespace modeld::ipc {
namespace {

TEST(CameraArgs, DefaultsAreTheThreeSyntheticStreams) {
  const auto options = camera_options({});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(*format_source(options->source),
            "synth;seed=1;vehicle=straight;fps=20;road=1928x1208;wide=1928x1208;cabin=1928x1208");
  EXPECT_FALSE(options->frames.has_value());
}

TEST(CameraArgs, EverySwitchIsTaken) {
  CameraArgs args;
  args.fps = 10;
  args.streams = "cabin,road";
  args.vehicle = "lane-change";
  args.black_at = 7;
  args.seed = 3;
  args.camera = "1344x760";
  args.frames = 100;
  const auto options = camera_options(args);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(*format_source(options->source),
            "synth;seed=3;vehicle=lane-change;fps=10;road=1344x760;cabin=1344x760;black_at=7");
  EXPECT_EQ(options->frames, 100u);
}

TEST(CameraArgs, FilesGetAbsolutePaths) {
  CameraArgs args;
  args.source = "road=a.y4m,cabin=/x/b.y4m";
  const auto options = camera_options(args);
  ASSERT_TRUE(options.ok());
  EXPECT_FALSE(options->source.synth);
  EXPECT_TRUE(options->source.streams[0].path.starts_with('/'));
  EXPECT_TRUE(options->source.streams[0].path.ends_with("/a.y4m"));
  EXPECT_EQ(options->source.streams[2].path, "/x/b.y4m");
}

TEST(CameraArgs, WrongWordsAreInvalidAndNamed) {
  const auto error_of = [](const CameraArgs& args) {
    const auto options = camera_options(args);
    EXPECT_FALSE(options.ok());
    EXPECT_EQ(options.error().code, Errc::kInvalid);
    return options.error().what;
  };
  CameraArgs args;
  args.streams = "road,rear";
  EXPECT_THAT(error_of(args), testing::HasSubstr("rear"));
  args = {};
  args.vehicle = "fast";
  EXPECT_THAT(error_of(args), testing::HasSubstr("fast"));
  args = {};
  args.camera = "1927x1208";
  EXPECT_THAT(error_of(args), testing::HasSubstr("1927"));
  args = {};
  args.source = "road=a,road=b";
  EXPECT_THAT(error_of(args), testing::HasSubstr("twice"));
  args.source = "road=a";
  args.streams = "wide";
  EXPECT_THAT(error_of(args), testing::HasSubstr("no wide"));
}

TEST(CameraArgs, ARecordingPlaysItsOwnFrames) {
  const TempDir dir = std::move(*TempDir::create("ipc"));
  Recording recording;
  recording.source = "synth;seed=9;vehicle=straight;fps=20;road=64x48;wide=64x48";
  for (const uint64_t id : {12u, 13u, 15u}) {
    RecordedRun run;
    run.frame_id = id;
    recording.runs.push_back(run);
  }
  CameraArgs args;
  args.source = dir.path() + "/a.rec";
  ASSERT_TRUE(write_recording(args.source, recording).ok());
  const auto options = camera_options(args);
  ASSERT_TRUE(options.ok()) << options.error().what;
  EXPECT_EQ(options->source.seed, 9u);
  EXPECT_EQ(options->first_frame, 12u);
  EXPECT_EQ(options->frames, 4u);
  args.seed = 1;
  EXPECT_FALSE(camera_options(args).ok());
  args = {};
  args.source = dir.path() + "/missing";
  EXPECT_FALSE(camera_options(args).ok());
}

}  // namespace
}  // namespace modeld::ipc
