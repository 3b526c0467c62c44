#include "ipc/fd_channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "ipc/runtime_dir.h"

namespace modeld::ipc {
namespace {

Result<sockaddr_un> make_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return fail(Errc::kInvalid, strf("socket %s: path has %zu bytes, want 1 to %zu", path.c_str(),
                                     path.size(), sizeof(address.sun_path) - 1));
  memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<UniqueFd> make_socket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return fail_errno(Errc::kIo, "making a SEQPACKET socket", errno);
  return fd;
}

// Room for the descriptors of one packet, aligned as the kernel wants it.
struct ControlBuffer {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int) * kMaxFdsPerPacket)];
};

// Takes every descriptor out of `message`; those that do not fit are closed. Returns how many came.
size_t take_fds(msghdr& message, std::span<UniqueFd> fds) {
  size_t count = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; ++i) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      UniqueFd owned(fd);
      if (count < fds.size()) fds[count] = std::move(owned);
      ++count;
    }
  }
  return count;
}

}  // namespace

Result<std::pair<FdChannel, FdChannel>> FdChannel::pair() {
  int fds[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
    return fail_errno(Errc::kIo, "making a socket pair", errno);
  return std::make_pair(FdChannel(UniqueFd(fds[0])), FdChannel(UniqueFd(fds[1])));
}

Result<FdChannel> FdChannel::connect(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, make_address(path));
  ASSIGN_OR_RETURN(UniqueFd fd, make_socket());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0)
    return FdChannel(std::move(fd));
  const int error = errno;
  const Errc code = error == ENOENT                            ? Errc::kNotFound
                    : error == ECONNREFUSED || error == EAGAIN ? Errc::kBusy
                                                               : Errc::kIo;
  return fail_errno(code, "connecting to " + path, error);
}

Result<bool> FdChannel::send(std::span<const std::byte> bytes, std::span<const int> fds) {
  if (fds.size() > kMaxFdsPerPacket)
    return fail(Errc::kInvalid,
                strf("sending %zu descriptors, limit %zu", fds.size(), kMaxFdsPerPacket));
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ControlBuffer control;
  if (!fds.empty()) {
    memset(control.bytes, 0, sizeof(control.bytes));
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  ssize_t n = 0;
  do {
    n = sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  if (n >= 0) return true;
  if (errno == EAGAIN || errno == ENOBUFS) return false;
  return fail_errno(Errc::kIo, strf("sending %zu bytes", bytes.size()), errno);
}

Result<FdChannel::Received> FdChannel::receive(std::span<std::byte> bytes,
                                               std::span<UniqueFd> fds) {
  iovec part{bytes.data(), bytes.size()};
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  ssize_t n = 0;
  do {
    n = recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && errno == EAGAIN) return Received{};
  if (n < 0 && errno == ECONNRESET) return Received{Got::kClosed, 0, 0};
  if (n < 0) return fail_errno(Errc::kIo, "receiving a packet", errno);
  const size_t count = take_fds(message, fds);
  if (n == 0 && count == 0) return Received{Got::kClosed, 0, 0};
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || count > fds.size()) {
    for (UniqueFd& fd : fds.first(std::min(count, fds.size()))) fd.reset();
    return fail(Errc::kProtocol,
                strf("packet with %zu descriptors does not fit %zu bytes and %zu descriptors",
                     count, bytes.size(), fds.size()));
  }
  return Received{Got::kPacket, static_cast<size_t>(n), count};
}

Result<FdListener> FdListener::listen(const std::string& dir, const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, make_address(path));
  const auto alive = FdChannel::connect(path);
  if (alive.ok())
    return fail(Errc::kBusy, strf("socket %s: another process listens there", path.c_str()));
  // Only a socket nobody listens on is ours to remove (a plain file refuses connections as well).
  struct stat info {};
  if (alive.error().sys == ECONNREFUSED && lstat(path.c_str(), &info) == 0 &&
      S_ISSOCK(info.st_mode))
    unlink(path.c_str());
  ASSIGN_OR_RETURN(UniqueFd fd, make_socket());
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return fail_errno(Errc::kIo, "binding " + path, errno);
  FdListener listener(std::move(fd), path);
  RETURN_IF_ERROR(share_socket(dir, path));
  if (::listen(listener.fd(), 16) != 0) return fail_errno(Errc::kIo, "listening on " + path, errno);
  return listener;
}

FdListener& FdListener::operator=(FdListener&& other) noexcept {
  if (this == &other) return *this;
  if (fd_.is_open()) unlink(path_.c_str());
  fd_ = std::move(other.fd_);
  path_ = std::move(other.path_);
  return *this;
}

FdListener::~FdListener() {
  if (fd_.is_open()) unlink(path_.c_str());
}

Result<FdChannel> FdListener::accept() {
  const int fd = accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) return FdChannel(UniqueFd(fd));
  if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return FdChannel();
  return fail_errno(Errc::kIo, "accepting a client on " + path_, errno);
}

}  // namespace modeld::ipc
