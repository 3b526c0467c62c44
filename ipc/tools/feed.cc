#include "ipc/tools/feed.h"

#include "ipc/subscriber.h"

namespace modeld::ipc {

Result<std::unique_ptr<Feed>> Feed::open(const std::string& dir) {
  auto feed = std::unique_ptr<Feed>(new Feed());
  ASSIGN_OR_RETURN(feed->state_, connect_topic(feed->context_, dir, Topic::kState));
  ASSIGN_OR_RETURN(feed->road_, connect_topic(feed->context_, dir, Topic::kRoad));
  ASSIGN_OR_RETURN(feed->cabin_, connect_topic(feed->context_, dir, Topic::kCabin));
  for (const Receiver* const receiver : {feed->state_.get(), feed->road_.get(), feed->cabin_.get()})
    feed->poller_.add(receiver->poll_fd());
  return feed;
}

Status Feed::pump(Deadline deadline, const Handlers& handlers) {
  // The descriptors tell of changes only, so look first and wait after.
  ASSIGN_OR_RETURN(const int states,
                   for_each_message(*state_, state_scratch_, handlers.state, &damaged_));
  ASSIGN_OR_RETURN(const int roads,
                   for_each_message(*road_, road_scratch_, handlers.road, &damaged_));
  ASSIGN_OR_RETURN(const int cabins,
                   for_each_message(*cabin_, cabin_scratch_, handlers.cabin, &damaged_));
  if (states + roads + cabins > 0) return {};
  const auto waited = poller_.wait_until(deadline);
  return waited.ok() ? Status() : Status(fail(Error(waited.error())));
}

}  // namespace modeld::ipc
