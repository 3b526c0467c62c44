// The daemon's topics as one stream of callbacks: state, road, cabin. Shared by watch, record and
// gate. Threading: one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "hal/base/clock.h"
#include "hal/base/status.h"

#include "ipc/bus.h"
#include "ipc/message_types.h"
#include "ipc/poller.h"
#include "ipc/zmq_context.h"

namespace modeld::ipc {

class Feed final {
 public:
  struct Handlers {
    std::function<void(const StateMessage&)> state;
    std::function<void(const RoadMessage&)> road;
    std::function<void(const CabinMessage&)> cabin;
  };
  static Result<std::unique_ptr<Feed>> open(const std::string& dir);

  // Waits for messages, at most until the deadline or a signal, and hands on what has come.
  Status pump(Deadline deadline, const Handlers& handlers);
  uint64_t damaged() const { return damaged_; }

 private:
  Feed() = default;
  ZmqContext context_;
  std::unique_ptr<Receiver> state_, road_, cabin_;
  Poller poller_;
  StateMessage state_scratch_;
  RoadMessage road_scratch_;
  CabinMessage cabin_scratch_;
  uint64_t damaged_ = 0;
};

}  // namespace modeld::ipc
