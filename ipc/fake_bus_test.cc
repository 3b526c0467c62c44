#include "ipc/fake_bus.h"

#include "ipc/publisher.h"
#include "ipc/subscriber.h"

namespace modeld::ipc {
namespace {

TEST(FakeBus, DeliversInOrderToEveryReceiver) {
  FakeBus bus;
  const auto sender = bus.sender(Topic::kState);
  const auto first = bus.receiver(Topic::kState);
  const auto second = bus.receiver(Topic::kState);
  const auto other = bus.receiver(Topic::kRoad);
  Publisher publisher(*sender);
  StateMessage message;
  for (uint32_t i = 0; i < 3; ++i) {
    message.pid = i;
    ASSERT_TRUE(publisher.publish(message).ok());
  }
  for (Receiver* const receiver : {first.get(), second.get()}) {
    std::vector<uint32_t> pids;
    StateMessage scratch;
    EXPECT_EQ(*for_each_message(*receiver, scratch,
                                [&](const StateMessage& m) {
                                  EXPECT_EQ(m.header.sequence, pids.size());
                                  pids.push_back(m.pid);
                                }),
              3);
    EXPECT_THAT(pids, testing::ElementsAre(0, 1, 2));
  }
  EXPECT_TRUE(other->receive()->empty());
}

TEST(FakeBus, LosesTheOldestWhenTheQueueIsFull) {
  FakeBus bus;
  const auto sender = bus.sender(Topic::kMetrics);
  const auto receiver = bus.receiver(Topic::kMetrics);
  const auto depth = static_cast<uint64_t>(topic_info(Topic::kMetrics).queue_depth);
  Publisher publisher(*sender);
  MetricsMessage message;
  for (uint64_t i = 0; i < depth + 2; ++i) ASSERT_TRUE(publisher.publish(message).ok());
  uint64_t first = 0;
  bool seen = false;
  MetricsMessage scratch;
  EXPECT_EQ(*for_each_message(*receiver, scratch,
                              [&](const MetricsMessage& m) {
                                if (!seen) first = m.header.sequence;
                                seen = true;
                              }),
            static_cast<int>(depth));
  EXPECT_EQ(first, 2u);
  EXPECT_EQ(bus.lost(), 2u);
}

TEST(FakeBus, DamagedMessagesAreSkippedAndCounted) {
  FakeBus bus;
  const auto sender = bus.sender(Topic::kState);
  const auto receiver = bus.receiver(Topic::kState);
  const std::array<std::byte, 24> noise{std::byte{0xff}};
  ASSERT_TRUE(sender->send(noise).ok());
  Publisher publisher(*sender);
  StateMessage message;
  ASSERT_TRUE(publisher.publish(message).ok());
  uint64_t damaged = 0;
  StateMessage scratch;
  EXPECT_EQ(*for_each_message(
                *receiver, scratch, [](const StateMessage&) {}, &damaged),
            1);
  EXPECT_EQ(damaged, 1u);
}

}  // namespace
}  // namespace modeld::ipc
