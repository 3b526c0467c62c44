// Sending on a topic. `ZmqSender` owns one bound PUB socket; `Publisher` puts sequence, time and
// latencies into a message, builds it in its own buffer and sends it. Contract: never blocks, never
// allocates outside libzmq; a slow subscriber loses messages. Threading: one thread per object (the
// context may be shared).
#pragma once

#include <memory>
#include <string>

#include "ipc/bus.h"
#include "ipc/message.h"
#include "ipc/topics.h"
#include "ipc/zmq_context.h"

namespace modeld::ipc {

// PUB socket bound at ipc://<dir>/<topic>, mode 0660, group of the directory.
Result<std::unique_ptr<Sender>> bind_topic(ZmqContext& context,
                                           const std::string& dir,
                                           Topic topic);

class Publisher final {
 public:
  // `sender` must outlive this. `capacity_bytes` bounds the messages.
  Publisher(Sender& sender, size_t capacity_bytes = kMaxMessageBytes)
      : sender_(sender), buffer_(capacity_bytes) {}

  // Sets header.sequence and header.time_ns (and for road and cabin timings.latency_ns and
  // previous_latency_ns; they need timings.received_ns), then sends.
  Status publish(VehicleMessage& message);
  Status publish(RoadMessage& message);
  Status publish(CabinMessage& message);
  Status publish(StateMessage& message);
  Status publish(MetricsMessage& message);

  // received_ns to the return of the last send, 0 before the first or without received_ns.
  int64_t last_latency_ns() const { return last_latency_ns_; }
  uint64_t sent() const { return sequence_; }

 private:
  template <class M>
  Status publish_plain(M& message);
  template <class M>
  Status publish_timed(M& message);

  Sender& sender_;
  MessageBuffer buffer_;
  uint64_t sequence_ = 0;
  int64_t last_latency_ns_ = 0;
};

}  // namespace modeld::ipc
