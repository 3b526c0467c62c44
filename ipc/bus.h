// The two ends of a topic, as interfaces: ZeroMQ (publisher.h, subscriber.h) and in-process
// (fake_bus.h) implement them. Threading: one thread per object.
#pragma once

#include <cstddef>
#include <span>

#include "hal/base/status.h"

namespace modeld::ipc {

class Sender {
 public:
  virtual ~Sender() = default;
  // Never blocks: a subscriber that is behind loses the message.
  virtual Status send(std::span<const std::byte> bytes) = 0;
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // The next unread message, or an empty span if there is none. The span lives until the next call.
  // Never blocks.
  virtual Result<std::span<const std::byte>> receive() = 0;
  // Readable when receive() may have something; level-triggered only until receive() returned
  // empty. -1: none.
  virtual int poll_fd() const = 0;
};

}  // namespace modeld::ipc
