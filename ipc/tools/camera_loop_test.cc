// modelcam's loop against a real client: what arrives is exactly what the source string says.
#include "ipc/tools/camera_loop.h"

#include <cstring>
#include <thread>

#include "hal/base/fs.h"

#include "ipc/frame_client.h"
#include "ipc/poller.h"
#include "ipc/subscriber.h"

namespace modeld::ipc {
namespace {

CameraOptions small_options(const std::string& dir) {
  CameraOptions options;
  options.dir = dir;
  options.source.fps = 100;
  options.source.seed = 4;
  options.source.black_at = 12;
  options.source.vehicle = VehiclePattern::kLaneChange;
  for (StreamSource& stream : options.source.streams) stream = StreamSource{true, 128, 64, ""};
  options.first_frame = 10;
  options.frames = 60;
  return options;
}

struct SeenFrame {
  FrameMeta meta;
  bool pixels_match = false;
};

// Takes frames until the server is gone.
std::vector<SeenFrame> watch_frames(FrameClient& client, const SourceSpec& spec) {
  std::vector<SeenFrame> seen;
  const auto source = FrameSource::open(spec);
  std::vector<uint8_t> want(nv12_geometry(128, 64)->size);
  const Deadline deadline = Deadline::in_ms(120'000);
  Poller poller;
  poller.add(client.poll_fd());
  while (!deadline.has_passed()) {
    if (!client.poll().ok()) break;
    for (const StreamId stream : {StreamId::kRoad, StreamId::kWide, StreamId::kCabin}) {
      const FrameRef frame = client.take(stream);
      if (!frame) continue;
      EXPECT_TRUE((*source)->draw(stream, frame.meta().frame_id, want).ok());
      const size_t used = frame.info().geometry.used_bytes();
      seen.push_back({frame.meta(), std::memcmp(frame.pixels().data(), want.data(), used) == 0});
    }
    EXPECT_TRUE(poller.wait_until(Deadline::in_ms(50)).ok());
  }
  return seen;
}

struct Seen {
  std::vector<SeenFrame> frames;
  std::vector<VehicleMessage> vehicle;
};

// What a client sees of one run of the camera.
Seen see(const CameraOptions& options) {
  Seen out;
  auto loop = CameraLoop::create(options);
  ZmqContext context;
  const auto vehicle = connect_topic(context, options.dir, Topic::kVehicle);
  if (!loop.ok() || !vehicle.ok()) {
    ADD_FAILURE() << "no camera in " << options.dir;
    return out;
  }
  FrameClient client(options.dir + "/camera.sock");
  std::thread server([&loop] {
    EXPECT_TRUE((*loop)->run().ok());
    loop->reset();
  });
  out.frames = watch_frames(client, options.source);
  server.join();
  VehicleMessage scratch;
  EXPECT_TRUE(for_each_message(**vehicle, scratch, [&](const VehicleMessage& m) {
                out.vehicle.push_back(m);
              }).ok());
  return out;
}

TEST(CameraLoop, FramesAndVehicleAreWhatTheSourceStringSays) {
  const TempDir dir = std::move(*TempDir::create("ipc"));
  CameraOptions options = small_options(dir.path());
  Seen seen = see(options);
  // A client that the machine held up saw little of a short run.
  while ((seen.frames.size() <= 30 || seen.vehicle.empty()) && *options.frames < 6000) {
    *options.frames *= 10;
    seen = see(options);
  }
  ASSERT_GT(seen.frames.size(), 30u);
  std::map<uint64_t, int64_t> sof_of;
  for (const SeenFrame& frame : seen.frames) {
    EXPECT_TRUE(frame.pixels_match) << stream_name(frame.meta.stream) << " " << frame.meta.frame_id;
    EXPECT_GE(frame.meta.frame_id, 10u);
    EXPECT_GT(frame.meta.eof_ns, frame.meta.sof_ns);
    const auto [at, is_new] = sof_of.emplace(frame.meta.frame_id, frame.meta.sof_ns);
    if (!is_new) {
      EXPECT_EQ(at->second, frame.meta.sof_ns);
    }
  }
  // Absolute cadence: frame ids and times go together exactly.
  for (const auto& [id, sof] : sof_of)
    EXPECT_EQ(sof - sof_of.begin()->second,
              static_cast<int64_t>(id - sof_of.begin()->first) * 10 * kNsPerMs);

  EXPECT_FALSE(seen.vehicle.empty());
  for (const VehicleMessage& m : seen.vehicle) {
    VehicleInputs inputs = m.inputs;
    EXPECT_GT(inputs.time_ns, 0);
    inputs.time_ns = 0;
    EXPECT_EQ(inputs, synth_vehicle(4, VehiclePattern::kLaneChange, m.header.frame_id));
    EXPECT_EQ(m.source, *format_source(options.source));
  }
}

TEST(CameraLoop, VehicleOffBindsNoTopic) {
  const TempDir dir = std::move(*TempDir::create("ipc"));
  CameraOptions options = small_options(dir.path());
  options.source.vehicle = VehiclePattern::kOff;
  options.frames = 1;
  auto loop = CameraLoop::create(options);
  ASSERT_TRUE(loop.ok());
  EXPECT_TRUE((*loop)->run().ok());
  EXPECT_FALSE(file_exists(dir.path() + "/vehicle"));
  EXPECT_TRUE(file_exists(dir.path() + "/camera.sock"));
  loop->reset();
  EXPECT_FALSE(file_exists(dir.path() + "/camera.sock"));
}

TEST(CameraLoop, TwoServersInOneDirectoryAreRefused) {
  const TempDir dir = std::move(*TempDir::create("ipc"));
  const auto first = CameraLoop::create(small_options(dir.path()));
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(CameraLoop::create(small_options(dir.path())).ok());
}

}  // namespace
}  // namespace modeld::ipc
