#include "ipc/poller.h"

#include <cerrno>

#include "hal/base/check.h"

namespace modeld::ipc {

int Poller::add(int fd) {
  CHECK(count_ < kMaxPolled);
  fds_[static_cast<size_t>(count_)] = pollfd{fd, POLLIN, 0};
  return count_++;
}

Result<int> Poller::wait_until(Deadline deadline) {
  const int64_t left = deadline.left_ns();
  const timespec wait{static_cast<time_t>(left / kNsPerSecond),
                      static_cast<long>(left % kNsPerSecond)};
  const int n = ppoll(fds_.data(), static_cast<nfds_t>(count_), &wait, nullptr);
  if (n >= 0) return n;
  if (errno != EINTR) return fail_errno(Errc::kIo, "waiting for messages", errno);
  for (pollfd& p : fds_) p.revents = 0;
  return 0;
}

}  // namespace modeld::ipc
