#include "ipc/publisher.h"

#include <sched.h>
#include <sys/stat.h>

#include <thread>

#include "hal/base/clock.h"
#include "hal/base/fs.h"

#include "ipc/poller.h"
#include "ipc/subscriber.h"

namespace modeld::ipc {
namespace {

class Bus : public testing::Test {
 protected:
  Bus() : dir_(std::move(*TempDir::create("ipc"))) {}
  // Publishes every 5 ms until the receiver has something or much time has passed.
  template <class M>
  bool publish_until_seen(Publisher& publisher, Receiver& receiver, M& out) {
    const Deadline deadline = Deadline::in_ms(30'000);
    M message;
    Poller poller;
    poller.add(receiver.poll_fd());
    while (!deadline.has_passed()) {
      EXPECT_TRUE(publisher.publish(message).ok());
      int seen = 0;
      M scratch;
      seen = *for_each_message(receiver, scratch, [&](const M& m) { out.header = m.header; });
      if (seen > 0) return true;
      EXPECT_TRUE(poller.wait_until(Deadline::in_ms(5)).ok());
    }
    return false;
  }
  TempDir dir_;
  ZmqContext context_;
};

TEST_F(Bus, ASubscriberThatCameFirstGetsMessages) {
  const auto receiver = connect_topic(context_, dir_.path(), Topic::kState);
  ASSERT_TRUE(receiver.ok());
  const auto sender = bind_topic(context_, dir_.path(), Topic::kState);
  ASSERT_TRUE(sender.ok()) << sender.error().what;
  Publisher publisher(**sender);
  StateMessage out;
  EXPECT_TRUE(publish_until_seen(publisher, **receiver, out));
}

// The library's own threads connect the two; how soon is the machine's, so that the bound in time
// is the daemon's, end to end.
TEST_F(Bus, ALateSubscriberSeesWhatIsPublishedPeriodically) {
  const auto sender = bind_topic(context_, dir_.path(), Topic::kState);
  ASSERT_TRUE(sender.ok());
  Publisher publisher(**sender);
  StateMessage message;
  ASSERT_TRUE(publisher.publish(message).ok());
  const auto receiver = connect_topic(context_, dir_.path(), Topic::kState);
  ASSERT_TRUE(receiver.ok());
  StateMessage out;
  EXPECT_TRUE(publish_until_seen(publisher, **receiver, out));
  EXPECT_GT(out.header.sequence, 0u) << "what came before it is not kept for it";
}

TEST_F(Bus, TheSocketBelongsToTheGroupAndNobodyElse) {
  const auto sender = bind_topic(context_, dir_.path(), Topic::kRoad);
  ASSERT_TRUE(sender.ok());
  struct stat socket {};
  struct stat dir {};
  ASSERT_EQ(stat((dir_.path() + "/road").c_str(), &socket), 0);
  ASSERT_EQ(stat(dir_.path().c_str(), &dir), 0);
  EXPECT_EQ(socket.st_mode & 0777, 0660u);
  EXPECT_EQ(socket.st_gid, dir.st_gid);
}

// What it starts inherits its class and priority.
TEST(ZmqContext, IsMadeByARealTimeThreadToo) {
  bool is_allowed = false;
  std::thread real_time([&] {
    sched_param p{};
    p.sched_priority = 1;
    is_allowed = sched_setscheduler(0, SCHED_FIFO, &p) == 0;
    const auto dir = TempDir::create("ipc");
    ZmqContext context;
    EXPECT_TRUE(dir.ok() && bind_topic(context, dir->path(), Topic::kRoad).ok());
  });
  real_time.join();
  if (!is_allowed) GTEST_SKIP() << "no right to a real-time class here";
}

// By class: those that the context started, and this one.
TEST(ZmqContext, ItsThreadsNeverTakeTheSendersPlace) {
  const auto batch_threads = [] {
    size_t n = 0;
    const auto names = list_dir("/proc/self/task");
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>())
      n += sched_getscheduler(static_cast<pid_t>(std::stol(name))) == SCHED_BATCH ? 1 : 0;
    return n;
  };
  const size_t before = batch_threads();
  const int own = sched_getscheduler(0);
  if (own != SCHED_OTHER) GTEST_SKIP() << "this thread's class is not the normal one";
  const ZmqContext context;
  EXPECT_GT(batch_threads(), before);
  EXPECT_EQ(sched_getscheduler(0), own);
}

TEST_F(Bus, AClosedTopicLeavesNoFile) {
  ASSERT_TRUE(bind_topic(context_, dir_.path(), Topic::kRoad).ok());
  EXPECT_FALSE(file_exists(dir_.path() + "/road"));
}

TEST_F(Bus, ASlowSubscriberNeverHoldsUpThePublisher) {
  const auto sender = bind_topic(context_, dir_.path(), Topic::kRoad);
  const auto slow = connect_topic(context_, dir_.path(), Topic::kRoad);
  const auto quick = connect_topic(context_, dir_.path(), Topic::kRoad);
  ASSERT_TRUE(sender.ok() && slow.ok() && quick.ok());
  Publisher publisher(**sender);
  RoadMessage out;
  ASSERT_TRUE(publish_until_seen(publisher, **slow, out));
  ASSERT_TRUE(publish_until_seen(publisher, **quick, out));
  // `slow` reads no more. 2000 messages of 12 kB are far more than all queues and socket buffers
  // hold.
  RoadMessage message;
  int held_up = 0;  // a publisher that waits for the slow one is held up by every message
  RoadMessage scratch;
  for (int i = 0; i < 2000; ++i) {
    const int64_t before = now_ns();
    ASSERT_TRUE(publisher.publish(message).ok());
    held_up += now_ns() - before > 100 * kNsPerMs ? 1 : 0;
    ASSERT_TRUE(for_each_message(**quick, scratch, [](const RoadMessage&) {}).ok());
  }
  EXPECT_LT(held_up, 20);
  // With the slow one's queue full, the quick one still gets what is published from here on. It is
  // given time: the 2000 sends may take less than the scheduler gives the library's own thread.
  ASSERT_TRUE(publisher.publish(message).ok());
  const uint64_t newest = message.header.sequence;
  out.header.sequence = 0;
  while (out.header.sequence < newest) ASSERT_TRUE(publish_until_seen(publisher, **quick, out));
  // Bounded: of 2000 the slow one finds only what queues hold.
  uint64_t kept = 0;
  for (int i = 0; i < 20; ++i)
    kept += static_cast<uint64_t>(*for_each_message(**slow, scratch, [](const RoadMessage&) {}));
  EXPECT_LT(kept, 1000u);
}

class CaptureSender final : public Sender {
 public:
  Status send(std::span<const std::byte> bytes) override {
    last.assign(bytes.begin(), bytes.end());
    return {};
  }
  std::vector<std::byte> last;
};

TEST(Publisher, CarriesItsOwnLatencyAndThePreviousOne) {
  CaptureSender sender;
  Publisher publisher(sender);
  RoadMessage message;
  message.timings.received_ns = now_ns() - 10 * kNsPerMs;
  ASSERT_TRUE(publisher.publish(message).ok());
  RoadMessage out;
  ASSERT_TRUE(read_message(sender.last, out).ok());
  EXPECT_GE(out.timings.latency_ns, 10 * kNsPerMs);
  EXPECT_EQ(out.timings.previous_latency_ns, 0);
  const int64_t first = publisher.last_latency_ns();
  EXPECT_GE(first, out.timings.latency_ns);
  message.timings.received_ns = now_ns();
  ASSERT_TRUE(publisher.publish(message).ok());
  ASSERT_TRUE(read_message(sender.last, out).ok());
  EXPECT_EQ(out.timings.previous_latency_ns, first);
  EXPECT_EQ(out.header.sequence, 1u);
  // A heartbeat without a frame has no latency.
  message.timings.received_ns = 0;
  ASSERT_TRUE(publisher.publish(message).ok());
  ASSERT_TRUE(publisher.publish(message).ok());
  ASSERT_TRUE(read_message(sender.last, out).ok());
  EXPECT_EQ(out.timings.previous_latency_ns, 0);
}

}  // namespace
}  // namespace modeld::ipc
