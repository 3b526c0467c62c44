// In-process transport with deterministic order, for tests and replay: what is sent on a topic is
// queued for every receiver made before, oldest lost first when the topic's queue depth is reached.
// Threading: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "ipc/bus.h"
#include "ipc/topics.h"

namespace modeld::ipc {

class FakeBus final {
 public:
  FakeBus();
  ~FakeBus();
  std::unique_ptr<Sender> sender(Topic topic);
  std::unique_ptr<Receiver> receiver(Topic topic);
  // Messages that receivers lost so far.
  uint64_t lost() const;

 private:
  struct Core;
  std::shared_ptr<Core> core_;  // shared: ends may outlive the bus
};

}  // namespace modeld::ipc
