// AF_UNIX SEQPACKET sockets with descriptors beside the bytes, because ZeroMQ cannot carry them.
// Every call is non-blocking; descriptors are close-on-exec. A packet or descriptor list that does
// not fit is an error, never cut silently. Threading: one thread per object. send() and receive()
// do not allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "hal/base/status.h"
#include "hal/base/unique_fd.h"

namespace modeld::ipc {

inline constexpr size_t kMaxFdsPerPacket = 128;

class FdChannel final {
 public:
  FdChannel() = default;
  explicit FdChannel(UniqueFd fd) : fd_(std::move(fd)) {}

  // Both ends of a connected pair.
  static Result<std::pair<FdChannel, FdChannel>> pair();
  // kNotFound or kBusy (nobody listens), else kIo.
  static Result<FdChannel> connect(const std::string& path);

  bool is_open() const { return fd_.get() >= 0; }
  int fd() const { return fd_.get(); }
  void close() { fd_ = UniqueFd(); }

  // True: sent whole. False: the peer's queue is full, nothing was sent. Error: the peer is gone.
  Result<bool> send(std::span<const std::byte> bytes, std::span<const int> fds = {});

  enum class Got : uint8_t { kNothing, kPacket, kClosed };
  struct Received {
    Got got = Got::kNothing;
    size_t bytes = 0;
    size_t fds = 0;
  };
  // Descriptors land in `fds`; a packet or descriptor list that does not fit is kProtocol, its
  // descriptors are closed.
  Result<Received> receive(std::span<std::byte> bytes, std::span<UniqueFd> fds = {});

 private:
  UniqueFd fd_;
};

// A listening socket at `path` (a stale file is replaced, a live server is kBusy), shared as
// ipc/runtime_dir.h says.
class FdListener final {
 public:
  static Result<FdListener> listen(const std::string& dir, const std::string& path);
  FdListener(FdListener&&) noexcept = default;
  FdListener& operator=(FdListener&&) noexcept;
  ~FdListener();

  int fd() const { return fd_.get(); }
  // A closed channel when nobody waits.
  Result<FdChannel> accept();

 private:
  FdListener(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  UniqueFd fd_;
  std::string path_;
};

}  // namespace modeld::ipc
