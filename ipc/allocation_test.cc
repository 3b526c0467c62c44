// Steady state allocates nothing of ours: building and sending messages (libzmq stands outside),
// and the whole camera channel from drawing to giving the slot back. Every operator new of this
// program is counted per thread.
#include <cstdlib>
#include <new>

#include "hal/base/fs.h"

#include "ipc/frame_client.h"
#include "ipc/frame_server.h"
#include "ipc/publisher.h"

namespace {
thread_local uint64_t allocations = 0;
}  // namespace

void* operator new(size_t size) {
  ++allocations;
  void* const p = std::malloc(size == 0 ? 1 : size);
  if (p == nullptr) std::abort();
  return p;
}
void* operator new[](size_t size) {
  return operator new(size);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete[](void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, size_t) noexcept {
  std::free(p);
}

namespace modeld::ipc {
namespace {

class DropSender final : public Sender {
 public:
  Status send(std::span<const std::byte> bytes) override {
    sent += bytes.size();
    return {};
  }
  size_t sent = 0;
};

TEST(Allocation, TheCounterCounts) {
  const uint64_t before = allocations;
  const auto p = std::make_unique<std::array<char, 100>>();
  EXPECT_NE(p, nullptr);
  EXPECT_EQ(allocations - before, 1u);
}

template <class M>
uint64_t publish_many(M& message) {
  DropSender sender;
  Publisher publisher(sender);
  EXPECT_TRUE(publisher.publish(message).ok());
  const uint64_t before = allocations;
  for (int i = 0; i < 1000; ++i) {
    if (!publisher.publish(message).ok()) return UINT64_MAX;
  }
  const uint64_t counted = allocations - before;
  EXPECT_GT(sender.sent, 1000u);
  return counted;
}

TEST(Allocation, BuildingAndSendingAllocatesNothing) {
  RoadMessage road;
  road.raw.resize(2000);
  road.timings.received_ns = 1;
  EXPECT_EQ(publish_many(road), 0u);
  CabinMessage cabin;
  cabin.raw.resize(100);
  EXPECT_EQ(publish_many(cabin), 0u);
  StateMessage state;
  state.models.resize(2);
  state.models[0].text = "some text that is longer than the small string buffer";
  EXPECT_EQ(publish_many(state), 0u);
  MetricsMessage metrics;
  metrics.counters.resize(50, {"a_counter_with_a_long_name{model=\"road\"}", 1});
  EXPECT_EQ(publish_many(metrics), 0u);
}

TEST(Allocation, ReadingIntoAUsedStructAllocatesNothing) {
  RoadMessage road;
  road.raw.resize(2000);
  MessageBuffer buffer;
  ASSERT_TRUE(build_message(road, buffer).ok());
  RoadMessage out;
  ASSERT_TRUE(read_message(buffer.bytes(), out).ok());
  const uint64_t before = allocations;
  for (int i = 0; i < 100; ++i) {
    if (!read_message(buffer.bytes(), out).ok()) break;
  }
  EXPECT_EQ(allocations - before, 0u);
}

TEST(Allocation, TheCameraChannelAllocatesNothing) {
  const TempDir dir = std::move(*TempDir::create("ipc"));
  const std::string path = dir.path() + "/camera.sock";
  Handshake handshake;
  handshake.stream_count = 1;
  handshake.streams[0] = StreamInfo{StreamId::kRoad, *nv12_geometry(64, 32),
                                    default_intrinsics(StreamId::kRoad, 64, 32), kDefaultSlots, 20};
  auto server = FrameServer::create(dir.path(), path, handshake);
  ASSERT_TRUE(server.ok());
  FrameClient client(path);
  const Deadline deadline = Deadline::in_ms(30'000);
  while (!client.connected() && !deadline.has_passed()) {
    ASSERT_TRUE(client.poll().ok());
    (*server)->service();
  }
  ASSERT_TRUE(client.connected());
  const uint64_t before = allocations;
  uint64_t taken = 0;
  for (uint64_t id = 0; id < 1000; ++id) {
    (*server)->service();
    const auto writable = (*server)->begin_frame(StreamId::kRoad);
    if (!writable.has_value()) break;
    (*server)->publish(FrameMeta{StreamId::kRoad, writable->slot, id, 0, 0});
    const auto frame = client.wait_latest(StreamId::kRoad, Deadline::in_ms(30'000));
    if (frame.ok() && *frame) ++taken;
  }
  EXPECT_EQ(allocations - before, 0u);
  EXPECT_EQ(taken, 1000u);
}

}  // namespace
}  // namespace modeld::ipc
