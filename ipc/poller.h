// Waiting on several descriptors with a deadline: receivers, the camera client, signal descriptors.
// Threading: one thread. At most kMaxPolled descriptors; no allocation.
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>

#include "hal/base/clock.h"
#include "hal/base/status.h"

namespace modeld::ipc {

class Poller final {
 public:
  static constexpr int kMaxPolled = 16;
  // Index of the descriptor for is_ready().
  int add(int fd);
  // Returns the number of ready descriptors, 0 at the deadline . A signal ends the wait early with
  // 0.
  Result<int> wait_until(Deadline deadline);
  bool is_ready(int index) const { return fds_[static_cast<size_t>(index)].revents != 0; }

 private:
  std::array<pollfd, kMaxPolled> fds_{};
  int count_ = 0;
};

}  // namespace modeld::ipc
