// Receiving from a topic: `connect_topic` makes a SUB socket that (re)connects by itself, also
// before the publisher exists; read_message (ipc/message.h) takes what receive() returns. Contract:
// never blocks; bounded queue; messages over kMaxMessageBytes are an error and skipped; no
// allocation of ours after construction. Threading: one thread per object.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ipc/bus.h"
#include "ipc/message.h"
#include "ipc/topics.h"
#include "ipc/zmq_context.h"

namespace modeld::ipc {

// One for_each_message() reads at most this many messages, so that a flood cannot hold the caller.
inline constexpr int kMaxDrain = 256;

Result<std::unique_ptr<Receiver>> connect_topic(ZmqContext& context,
                                                const std::string& dir,
                                                Topic topic);

// Reads what has arrived into `scratch` and calls on_message(scratch) for each whole message;
// damaged ones are skipped and counted. `scratch` is unspecified afterwards. Returns the number of
// calls.
template <class M, class OnMessage>
Result<int> for_each_message(Receiver& receiver,
                             M& scratch,
                             const OnMessage& on_message,
                             uint64_t* damaged = nullptr) {
  int seen = 0;
  for (int i = 0; i < kMaxDrain; ++i) {
    ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, receiver.receive());
    if (bytes.empty()) break;
    if (read_message(bytes, scratch).ok()) {
      ++seen;
      on_message(std::as_const(scratch));
    } else if (damaged != nullptr) {
      ++*damaged;
    }
  }
  return seen;
}

}  // namespace modeld::ipc
