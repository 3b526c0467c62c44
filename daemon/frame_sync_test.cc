#include "daemon/frame_sync.h"

#include "hal/base/fs.h"

#include "ipc/frame_server.h"

namespace modeld::daemon {
namespace {

using ipc::StreamId;

constexpr int64_t kMs = 1'000'000;

// A road and a wide camera on a real channel; frames as the test wants them.
class FrameSyncTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::create("sync");
    ASSERT_TRUE(dir.ok());
    dir_ = std::make_unique<TempDir>(std::move(*dir));
    ipc::Handshake h;
    h.stream_count = 2;
    for (uint32_t i = 0; i < 2; ++i) {
      h.streams[i].stream = static_cast<StreamId>(i);
      h.streams[i].geometry = *ipc::nv12_geometry(64, 48);
      h.streams[i].intrinsics = ipc::default_intrinsics(h.streams[i].stream, 64, 48);
      h.streams[i].slots = ipc::kDefaultSlots;
      h.streams[i].fps = 20;
    }
    const std::string socket = dir_->path() + "/camera.sock";
    auto server = ipc::FrameServer::create(dir_->path(), socket, h);
    ASSERT_TRUE(server.ok()) << server.error().what;
    server_ = std::move(*server);
    client_ = std::make_unique<ipc::FrameClient>(socket);
    for (int i = 0; i < 1000 && !client_->connected(); ++i) {
      ASSERT_TRUE(client_->poll().ok());
      server_->service();
    }
    ASSERT_TRUE(client_->connected());
  }
  void show(StreamId stream, uint64_t id, int64_t sof_ns) {
    const auto writable = server_->begin_frame(stream);
    ASSERT_TRUE(writable.has_value());
    server_->publish({stream, writable->slot, id, sof_ns, sof_ns});
    server_->service();
    ASSERT_TRUE(client_->poll().ok());
  }
  bool match() { return sync_.match(*client_, set_, now_); }

  std::unique_ptr<TempDir> dir_;
  std::unique_ptr<ipc::FrameServer> server_;
  std::unique_ptr<ipc::FrameClient> client_;
  FrameSync sync_{{true, true, false}};
  FrameSet set_;
  int64_t now_ = 100'000 * kMs;
};

TEST_F(FrameSyncTest, PairsFramesTakenTogether) {
  show(StreamId::kRoad, 7, now_);
  EXPECT_FALSE(match());
  show(StreamId::kWide, 7, now_ + 10 * kMs);
  ASSERT_TRUE(match());
  EXPECT_EQ(set_.main().meta().frame_id, 7U);
  EXPECT_EQ(set_.frames[1].meta().stream, StreamId::kWide);
  EXPECT_EQ(sync_.dropped(), 0U);
  EXPECT_EQ(sync_.trouble(), "");
}

TEST_F(FrameSyncTest, FramesFurtherApartAreNeverOneRunAndTheOlderGoes) {
  show(StreamId::kRoad, 7, now_ - 40 * kMs);
  show(StreamId::kWide, 7, now_ - 29 * kMs);
  EXPECT_FALSE(match());
  EXPECT_EQ(sync_.trouble(), "road and wide frames begin 11 ms apart");
  // The wide one was kept: the road frame of its time makes the set.
  show(StreamId::kRoad, 8, now_ - 25 * kMs);
  ASSERT_TRUE(match());
  EXPECT_EQ(set_.main().meta().frame_id, 8U);
  EXPECT_EQ(sync_.dropped(), 1U);
}

TEST_F(FrameSyncTest, ARepeatedOrOlderIdIsDropped) {
  bool is_first = true;
  for (const uint64_t id : {7, 7, 6}) {
    show(StreamId::kRoad, id, now_);
    show(StreamId::kWide, id, now_);
    EXPECT_EQ(match(), is_first) << id;
    is_first = false;
    set_ = {};
    now_ += 50 * kMs;
  }
  EXPECT_EQ(sync_.dropped(), 4U);
  EXPECT_EQ(sync_.trouble(), "frame 6 came again or out of order");
}

TEST_F(FrameSyncTest, AFrameThatBeganLongAgoOrIsYetToBeginIsDropped) {
  show(StreamId::kRoad, 1, now_ - 151 * kMs);
  show(StreamId::kWide, 1, now_ - 151 * kMs);
  EXPECT_FALSE(match());
  EXPECT_EQ(sync_.trouble(), "frame 1 began 151 ms ago");
  show(StreamId::kRoad, 2, now_ + 11 * kMs);
  EXPECT_FALSE(match());
  EXPECT_EQ(sync_.trouble(), "frame 2 begins 11 ms from now");
  show(StreamId::kRoad, 3, now_ - 150 * kMs);
  show(StreamId::kWide, 3, now_ - 150 * kMs);
  EXPECT_TRUE(match());
}

TEST_F(FrameSyncTest, AFrameThatWaitsForItsPartnerGrowsOldToo) {
  show(StreamId::kRoad, 1, now_);
  EXPECT_FALSE(match());
  now_ += 200 * kMs;
  EXPECT_FALSE(match());
  EXPECT_EQ(sync_.dropped(), 1U);
  show(StreamId::kWide, 1, now_ - 195 * kMs);
  EXPECT_FALSE(match());
}

TEST_F(FrameSyncTest, WhatIsDroppedGivesItsSlotBack) {
  for (uint64_t id = 1; id < 100; ++id) {
    show(StreamId::kRoad, id, now_);
    EXPECT_FALSE(match());
  }
  EXPECT_EQ(sync_.dropped(), 98U);
  EXPECT_EQ(sync_.trouble(), "frame 98 has no partner of the other stream");
  EXPECT_EQ(server_->lost_for_slow_clients(), 0U);
}

}  // namespace
}  // namespace modeld::daemon
