// Server and client of camera.sock together, and peers that misbehave.
#include <fcntl.h>
#include <sys/mman.h>

#include <cstring>

#include "hal/base/fs.h"
#include "hal/base/mapping.h"

#include "ipc/fd_channel.h"
#include "ipc/frame_client.h"
#include "ipc/frame_server.h"

namespace modeld::ipc {
namespace {

Handshake small_handshake(uint32_t slots = kDefaultSlots) {
  Handshake h;
  h.stream_count = 2;
  const Nv12Geometry g = *nv12_geometry(64, 32);
  h.streams[0] =
      StreamInfo{StreamId::kRoad, g, default_intrinsics(StreamId::kRoad, 64, 32), slots, 20};
  h.streams[1] =
      StreamInfo{StreamId::kWide, g, default_intrinsics(StreamId::kWide, 64, 32), slots, 20};
  h.source = "synth;seed=1;road=64x32";
  return h;
}

class FrameChannel : public testing::Test {
 protected:
  FrameChannel() : dir_(std::move(*TempDir::create("ipc"))), path_(dir_.path() + "/camera.sock") {}

  std::unique_ptr<FrameServer> make_server(uint32_t slots = kDefaultSlots) {
    auto server = FrameServer::create(dir_.path(), path_, small_handshake(slots));
    EXPECT_TRUE(server.ok()) << server.error().what;
    return std::move(*server);
  }
  // Pixels carry the frame id in their first bytes.
  static bool publish(FrameServer& server, StreamId stream, uint64_t id) {
    server.service();
    const auto writable = server.begin_frame(stream);
    if (!writable.has_value()) return false;
    std::memcpy(writable->pixels.data(), &id, sizeof(id));
    server.publish(FrameMeta{stream, writable->slot, id, static_cast<int64_t>(id) * 100,
                             static_cast<int64_t>(id) * 100 + 1});
    return true;
  }
  static uint64_t id_in(const FrameRef& frame) {
    uint64_t id = 0;
    std::memcpy(&id, frame.pixels().data(), sizeof(id));
    return id;
  }
  static void connect(FrameClient& client, FrameServer& server) {
    const Deadline deadline = Deadline::in_ms(30'000);
    while (!client.connected() && !deadline.has_passed()) {
      ASSERT_TRUE(client.poll().ok());
      server.service();
    }
    ASSERT_TRUE(client.connected());
  }

  TempDir dir_;
  std::string path_;
};

TEST_F(FrameChannel, HandshakeCarriesGeometryIntrinsicsAndSource) {
  const auto server = make_server();
  FrameClient client(path_);
  connect(client, *server);
  ASSERT_NE(client.handshake(), nullptr);
  EXPECT_EQ(*client.handshake(), small_handshake());
  ASSERT_NE(client.stream(StreamId::kRoad), nullptr);
  EXPECT_EQ(client.stream(StreamId::kCabin), nullptr);
  EXPECT_EQ(client.slot_fds(StreamId::kRoad).size(), kDefaultSlots);
  EXPECT_EQ(client.slot_pixels(StreamId::kWide, 3).size(), nv12_geometry(64, 32)->size);
  EXPECT_TRUE(client.slot_pixels(StreamId::kWide, kDefaultSlots).empty());
  EXPECT_EQ(client.epoch(), 1u);
}

TEST_F(FrameChannel, FramesArriveWithTheirPixels) {
  const auto server = make_server();
  FrameClient client(path_);
  connect(client, *server);
  ASSERT_TRUE(publish(*server, StreamId::kRoad, 5));
  const auto frame = client.wait_latest(StreamId::kRoad, Deadline::in_ms(30'000));
  ASSERT_TRUE(frame.ok() && *frame);
  EXPECT_EQ(frame->meta().frame_id, 5u);
  EXPECT_EQ(frame->meta().sof_ns, 500);
  EXPECT_EQ(id_in(*frame), 5u);
  EXPECT_GT(frame->received_ns(), 0);
  EXPECT_EQ(frame->epoch(), 1u);
  EXPECT_FALSE(client.has_unread(StreamId::kRoad));
}

TEST_F(FrameChannel, ASharedFrameGoesBackWithItsLastReference) {
  const auto server = make_server(2);
  FrameClient client(path_);
  connect(client, *server);
  ASSERT_TRUE(publish(*server, StreamId::kRoad, 0));
  ASSERT_TRUE(publish(*server, StreamId::kRoad, 1));
  auto first = client.wait_latest(StreamId::kRoad, Deadline::in_ms(30'000));
  ASSERT_TRUE(first.ok() && *first);
  FrameRef second = first->share();
  EXPECT_EQ(second.meta(), first->meta());
  ASSERT_TRUE(publish(*server, StreamId::kRoad, 2));
  first->reset();
  EXPECT_FALSE(publish(*server, StreamId::kRoad, 3));
  second.reset();
  EXPECT_TRUE(publish(*server, StreamId::kRoad, 3));
}

TEST_F(FrameChannel, OlderUnreadFramesAreDroppedAndCounted) {
  const auto server = make_server();
  FrameClient client(path_);
  connect(client, *server);
  for (uint64_t id = 0; id < 3; ++id) ASSERT_TRUE(publish(*server, StreamId::kRoad, id));
  const auto frame = client.wait_latest(StreamId::kRoad, Deadline::in_ms(30'000));
  ASSERT_TRUE(frame.ok() && *frame);
  EXPECT_EQ(frame->meta().frame_id, 2u);
  EXPECT_EQ(client.dropped(StreamId::kRoad), 2u);
  EXPECT_EQ(client.dropped(StreamId::kWide), 0u);
}

TEST_F(FrameChannel, WaitingEndsAtTheDeadline) {
  const auto server = make_server();
  FrameClient client(path_);
  connect(client, *server);
  const auto frame = client.wait_latest(StreamId::kRoad, Deadline::in_ms(5));
  ASSERT_TRUE(frame.ok());
  EXPECT_FALSE(*frame);
}

TEST_F(FrameChannel, AHeldSlotIsNeverRewritten) {
  const auto server = make_server();
  FrameClient client(path_);
  connect(client, *server);
  ASSERT_TRUE(publish(*server, StreamId::kRoad, 0));
  const auto held = client.wait_latest(StreamId::kRoad, Deadline::in_ms(30'000));
  ASSERT_TRUE(held.ok() && *held);
  for (uint64_t id = 1; id < 200; ++id) {
    ASSERT_TRUE(publish(*server, StreamId::kRoad, id));
    const auto next = client.wait_latest(StreamId::kRoad, Deadline::in_ms(30'000));
    ASSERT_TRUE(next.ok() && *next);
    ASSERT_NE(next->meta().slot, held->meta().slot);
    ASSERT_EQ(id_in(*next), id);
  }
  EXPECT_EQ(id_in(*held), 0u);
}

TEST_F(FrameChannel, ASlowClientLosesFramesAndNobodyElseDoes) {
  const auto server = make_server();
  FrameClient slow(path_);
  FrameClient quick(path_);
  connect(slow, *server);
  connect(quick, *server);
  for (uint64_t id = 0; id < 100; ++id) {
    ASSERT_TRUE(publish(*server, StreamId::kRoad, id));
    const auto frame = quick.wait_latest(StreamId::kRoad, Deadline::in_ms(30'000));
    ASSERT_TRUE(frame.ok() && *frame);
    ASSERT_EQ(frame->meta().frame_id, id);
  }
  EXPECT_EQ(server->lost_for_all(), 0u);
  EXPECT_EQ(server->lost_for_slow_clients(), 100u - kFramesPerClient);
  EXPECT_EQ(quick.dropped(StreamId::kRoad), 0u);
}

TEST_F(FrameChannel, AllClientsTogetherCannotStarveTheServer) {
  const auto server = make_server();
  std::vector<std::unique_ptr<FrameClient>> clients;
  std::vector<FrameRef> hoard;
  uint64_t id = 0;
  for (uint32_t c = 0; c < kMaxFrameClients; ++c) {
    clients.push_back(std::make_unique<FrameClient>(path_));
    connect(*clients.back(), *server);
    // The newest client takes frames of its own and keeps them.
    for (uint32_t k = 0; k < kFramesPerClient; ++k) {
      ASSERT_TRUE(publish(*server, StreamId::kRoad, id++));
      auto frame = clients.back()->wait_latest(StreamId::kRoad, Deadline::in_ms(30'000));
      ASSERT_TRUE(frame.ok() && *frame);
      hoard.push_back(std::move(*frame));
    }
  }
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(publish(*server, StreamId::kRoad, id++));
  EXPECT_EQ(server->lost_for_all(), 0u);
}

TEST_F(FrameChannel, OneClientTooManyIsTurnedAway) {
  const auto server = make_server();
  std::vector<std::unique_ptr<FrameClient>> clients;
  for (uint32_t c = 0; c < kMaxFrameClients; ++c) {
    clients.push_back(std::make_unique<FrameClient>(path_));
    connect(*clients.back(), *server);
  }
  FrameClient extra(path_);
  Status last;
  const Deadline deadline = Deadline::in_ms(30'000);
  while (last.ok() && !deadline.has_passed()) {
    last = extra.poll();
    server->service();
  }
  EXPECT_FALSE(last.ok());
  EXPECT_FALSE(extra.connected());
}

TEST_F(FrameChannel, ADeadClientGivesItsSlotsBack) {
  const auto server = make_server(2);
  auto client = std::make_unique<FrameClient>(path_);
  connect(*client, *server);
  ASSERT_TRUE(publish(*server, StreamId::kRoad, 0));
  ASSERT_TRUE(publish(*server, StreamId::kRoad, 1));
  EXPECT_FALSE(publish(*server, StreamId::kRoad, 2));
  EXPECT_EQ(server->lost_for_all(), 1u);
  client.reset();
  EXPECT_TRUE(publish(*server, StreamId::kRoad, 3));
  EXPECT_EQ(server->client_count(), 0u);
}

TEST_F(FrameChannel, AClientThatReleasesWhatItDoesNotHoldIsDropped) {
  const auto server = make_server();
  auto raw = FdChannel::connect(path_);
  ASSERT_TRUE(raw.ok());
  server->service();
  EXPECT_EQ(server->client_count(), 1u);
  PacketBuffer packet;
  const size_t n = encode_release({StreamId::kCabin, 3, 0}, packet);
  ASSERT_TRUE(*raw->send(std::span(packet).first(n)));
  server->service();
  EXPECT_EQ(server->client_count(), 0u);
}

TEST_F(FrameChannel, ReconnectsWhenTheServerComesBack) {
  auto server = make_server();
  FrameClient client(path_);
  connect(client, *server);
  ASSERT_TRUE(publish(*server, StreamId::kRoad, 0));
  auto kept = client.wait_latest(StreamId::kRoad, Deadline::in_ms(30'000));
  ASSERT_TRUE(kept.ok() && *kept);
  server.reset();
  EXPECT_FALSE(client.poll().ok());
  EXPECT_FALSE(client.connected());
  EXPECT_TRUE(client.poll().ok());
  // The pixels of a frame that is still held stay readable.
  EXPECT_EQ(id_in(*kept), 0u);
  server = make_server();
  connect(client, *server);
  EXPECT_EQ(client.epoch(), 2u);
  kept->reset();  // of the old connection: must not touch the new one
  ASSERT_TRUE(publish(*server, StreamId::kRoad, 9));
  const auto frame = client.wait_latest(StreamId::kRoad, Deadline::in_ms(30'000));
  ASSERT_TRUE(frame.ok() && *frame);
  EXPECT_EQ(frame->meta().frame_id, 9u);
  server->service();
  EXPECT_EQ(server->client_count(), 1u);
}

TEST_F(FrameChannel, MappingsOfTheClientAreReadOnly) {
  const auto server = make_server();
  FrameClient client(path_);
  connect(client, *server);
  const auto pixels = client.slot_pixels(StreamId::kRoad, 0);
  ASSERT_FALSE(pixels.empty());
  EXPECT_DEATH({ *const_cast<volatile uint8_t*>(pixels.data()) = 1; }, "");
}

// A server that sends whatever the test wants.
class BadServer : public FrameChannel {
 protected:
  Status handshake_result(const Handshake& handshake, const std::vector<int>& fds) {
    auto listener = FdListener::listen(dir_.path(), path_);
    EXPECT_TRUE(listener.ok());
    FrameClient client(path_);
    FdChannel peer;
    Status status;
    const Deadline deadline = Deadline::in_ms(30'000);
    while (status.ok() && !client.connected() && !deadline.has_passed()) {
      status = client.poll();
      if (peer.is_open()) continue;
      peer = std::move(*listener->accept());
      if (!peer.is_open()) continue;
      PacketBuffer packet;
      const size_t n = *encode_handshake(handshake, packet);
      EXPECT_TRUE(*peer.send(std::span(packet).first(n), fds));
    }
    EXPECT_EQ(client.connected(), status.ok());
    return status;
  }
  static Handshake one_slot() {
    Handshake h = small_handshake(1);
    h.stream_count = 1;
    return h;
  }
  static UniqueFd buffer(uint64_t size, bool sealed) {
    UniqueFd fd = std::move(*create_memfd("bad", size));
    if (sealed) {
      EXPECT_TRUE(seal_size(fd.get()).ok());
    }
    return fd;
  }
  uint64_t size_ = nv12_geometry(64, 32)->size;
};

TEST_F(BadServer, AGoodHandshakePasses) {
  const UniqueFd fd = buffer(size_, true);
  EXPECT_TRUE(handshake_result(one_slot(), {fd.get()}).ok());
}

TEST_F(BadServer, ABufferWithoutSealsIsRefused) {
  const UniqueFd fd = buffer(size_, false);
  const Status status = handshake_result(one_slot(), {fd.get()});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().what, testing::HasSubstr("camera buffer road 0"));
}

TEST_F(BadServer, AShortBufferIsRefused) {
  const UniqueFd fd = buffer(size_ - 4096, true);
  EXPECT_FALSE(handshake_result(one_slot(), {fd.get()}).ok());
}

TEST_F(BadServer, APlainFileIsRefused) {
  const std::string file = dir_.path() + "/pixels";
  const UniqueFd fd(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(ftruncate(fd.get(), static_cast<off_t>(size_)), 0);
  EXPECT_FALSE(handshake_result(one_slot(), {fd.get()}).ok());
}

TEST_F(BadServer, AWrongNumberOfBuffersIsRefused) {
  const UniqueFd fd = buffer(size_, true);
  EXPECT_FALSE(handshake_result(one_slot(), {fd.get(), fd.get()}).ok());
  EXPECT_FALSE(handshake_result(one_slot(), {}).ok());
}

TEST_F(BadServer, AFrameOfAnUnknownSlotEndsTheConnection) {
  auto listener = FdListener::listen(dir_.path(), path_);
  ASSERT_TRUE(listener.ok());
  FrameClient client(path_);
  const UniqueFd fd = buffer(size_, true);
  const int fds[] = {fd.get()};
  FdChannel peer;
  const Deadline deadline = Deadline::in_ms(30'000);
  Status status;
  while (status.ok() && !deadline.has_passed()) {
    status = client.poll();
    if (peer.is_open()) continue;
    peer = std::move(*listener->accept());
    if (!peer.is_open()) continue;
    PacketBuffer packet;
    size_t n = *encode_handshake(one_slot(), packet);
    ASSERT_TRUE(*peer.send(std::span(packet).first(n), fds));
    FrameMeta meta;
    meta.slot = 1;
    n = encode_frame(meta, packet);
    ASSERT_TRUE(*peer.send(std::span(packet).first(n)));
  }
  ASSERT_FALSE(status.ok());
  EXPECT_FALSE(client.connected());
}

TEST_F(FrameChannel, ASecondServerOnTheSameSocketIsRefused) {
  const auto server = make_server();
  EXPECT_FALSE(FrameServer::create(dir_.path(), path_, small_handshake()).ok());
}

}  // namespace
}  // namespace modeld::ipc
