#include "daemon/hop.h"

namespace modeld::daemon {
namespace {

WorkerHello sample_hello() {
  WorkerHello h;
  h.bundle_id = "ab12";
  h.device = "cpu:0";
  h.is_simulated = true;
  h.raw_size = 64;
  h.context_frames = 24;
  h.compiled_calls = 3;
  h.slices = {{"plan", 0, 32}, {"meta", 32, 64}};
  h.geometries = {{"road", 1928, 1208, 1}};
  return h;
}

TEST(Hop, PacketsSurviveTheWay) {
  WorkerSetup setup{"road", "/b/road.bundle", "cpu", "missing", "/keys", true, {0, 1}, 7, 10, 60};
  auto s = decode_setup(encode(setup));
  ASSERT_TRUE(s.ok()) << s.error().what;
  EXPECT_EQ(s->bundle, setup.bundle);
  EXPECT_EQ(s->cpus, setup.cpus);
  EXPECT_EQ(s->priority, 7);
  EXPECT_EQ(s->nice, 10);
  auto h = decode_hello(encode(sample_hello()));
  ASSERT_TRUE(h.ok()) << h.error().what;
  EXPECT_EQ(h->slices, sample_hello().slices);
  EXPECT_EQ(h->geometries, sample_hello().geometries);
  EXPECT_TRUE(h->is_simulated);
  auto f = decode_failure(encode(WorkerFailure{ipc::Reason::kCompileFailed, "call 3"}));
  ASSERT_TRUE(f.ok());
  EXPECT_EQ(f->reason, ipc::Reason::kCompileFailed);
  EXPECT_EQ(f->text, "call 3");
  CameraBuffers b;
  b.epoch = 4;
  StreamBuffers row;
  row.info.stream = ipc::StreamId::kWide;
  row.info.geometry = *ipc::nv12_geometry(64, 48);
  row.info.intrinsics = {1, 2, 3, 4};
  row.info.slots = 6;
  row.first_fd = 2;
  b.streams.push_back(row);
  auto c = decode_buffers(encode(b));
  ASSERT_TRUE(c.ok());
  EXPECT_EQ(c->epoch, 4U);
  EXPECT_EQ(c->streams[0].info.geometry, row.info.geometry);
  EXPECT_EQ(c->streams[0].first_fd, 2U);
}

TEST(Hop, DamagedPacketsAreErrors) {
  const std::vector<std::byte> good = encode(sample_hello());
  for (size_t n = 0; n < good.size(); ++n)
    EXPECT_FALSE(decode_hello(std::span(good).first(n)).ok()) << n;
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_hello(longer).ok());
  EXPECT_FALSE(decode_setup(good).ok());
  EXPECT_FALSE(packet_kind({}).ok());
  WorkerHello big = sample_hello();
  big.raw_size = kMaxRawFloats + 1;
  EXPECT_FALSE(decode_hello(encode(big)).ok());
}

}  // namespace
}  // namespace modeld::daemon
