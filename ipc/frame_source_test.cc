#include "ipc/frame_source.h"

#include "hal/base/fs.h"

#include "ipc/synth_scene.h"

namespace modeld::ipc {
namespace {

SourceSpec synth_spec() {
  SourceSpec spec;
  spec.seed = 5;
  spec.vehicle = VehiclePattern::kLaneChange;
  spec.black_at = 3;
  for (StreamSource& stream : spec.streams) stream = StreamSource{true, 64, 48, ""};
  return spec;
}

TEST(FrameSource, SourceStringRoundTrip) {
  const auto text = format_source(synth_spec());
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text,
            "synth;seed=5;vehicle=lane-change;fps=20;road=64x48;wide=64x48;cabin=64x48;black_at=3");
  EXPECT_EQ(*parse_source(*text), synth_spec());
  SourceSpec files;
  files.synth = false;
  files.streams[2] = StreamSource{true, 0, 0, "/data/cabin video.y4m"};
  const auto file_text = format_source(files);
  ASSERT_TRUE(file_text.ok());
  EXPECT_EQ(*parse_source(*file_text), files);
}

TEST(FrameSource, RefusesWhatItCannotCarryOrRead) {
  SourceSpec files;
  files.synth = false;
  files.streams[0] = StreamSource{true, 0, 0, "/data/a;seed=3"};
  EXPECT_FALSE(format_source(files).ok());
  files.streams[0].path = std::string(600, 'a');
  EXPECT_FALSE(format_source(files).ok());
  for (const char* const bad :
       {"", "synth", "v4l;road=64x48", "synth;road", "synth;road=64", "synth;road=65x48",
        "synth;road=64x48;road=64x48", "synth;road=64x48;seed=-1", "synth;road=64x48;fps=0",
        "synth;road=64x48;vehicle=x", "synth;road=64x48;speed=1", "synth;road=99999999x2",
        "synth;road=64x48\n", "y4m;road="})
    EXPECT_FALSE(parse_source(bad).ok()) << bad;
}

TEST(FrameSource, SynthDrawsTheSceneAndTheBlackFrame) {
  const auto source = FrameSource::open(synth_spec());
  ASSERT_TRUE(source.ok());
  const StreamInfo* const info = (*source)->stream(StreamId::kWide);
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->intrinsics, default_intrinsics(StreamId::kWide, 64, 48));
  std::vector<uint8_t> out(info->geometry.size);
  std::vector<uint8_t> want(info->geometry.size);
  const SynthScene scene(5, StreamId::kWide, info->geometry);
  for (const uint64_t id : {2u, 3u}) {
    ASSERT_TRUE((*source)->draw(StreamId::kWide, id, out).ok());
    scene.draw(id, id == 3, want);
    EXPECT_EQ(out, want);
  }
  EXPECT_EQ((*source)->vehicle(30), synth_vehicle(5, VehiclePattern::kLaneChange, 30));
  EXPECT_FALSE((*source)->draw(StreamId::kWide, 0, std::span(out).first(100)).ok());
}

TEST(FrameSource, AMissingStreamIsAnError) {
  SourceSpec spec = synth_spec();
  spec.streams[2].present = false;
  const auto source = FrameSource::open(spec);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->stream(StreamId::kCabin), nullptr);
  std::vector<uint8_t> out(1 << 20);
  EXPECT_FALSE((*source)->draw(StreamId::kCabin, 0, out).ok());
}

TEST(FrameSource, AFileThatIsNotThereIsAnErrorThatNamesIt) {
  SourceSpec files;
  files.synth = false;
  files.streams[0] = StreamSource{true, 0, 0, "/nowhere/a.y4m"};
  const auto source = FrameSource::open(files);
  ASSERT_FALSE(source.ok());
  EXPECT_THAT(source.error().what, testing::HasSubstr("/nowhere/a.y4m"));
}

}  // namespace
}  // namespace modeld::ipc
