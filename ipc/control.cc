#include "ipc/control.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>

#include <utility>

#include "hal/base/bytes.h"
#include "hal/base/fs.h"
#include "hal/base/json.h"
#include "hal/base/mapping.h"

namespace modeld::ipc {
namespace {

constexpr int64_t kIdleClientNs = kNsPerSecond;

Status wait_readable(int fd, Deadline deadline, const char* what) {
  for (;;) {
    pollfd wait{fd, POLLIN, 0};
    const int n = ::poll(&wait, 1, deadline.left_ms());
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return fail_errno(Errc::kIo, what, errno);
    if (deadline.has_passed()) return fail(Errc::kTimeout, strf("%s: no answer in time", what));
  }
}

Result<std::string> read_memfd(const UniqueFd& fd, int64_t size) {
  if (size <= 0 || static_cast<uint64_t>(size) > kMaxControlReply)
    return fail(Errc::kProtocol, strf("control reply of %lld bytes, limit %zu",
                                      static_cast<long long>(size), kMaxControlReply));
  RETURN_IF_ERROR(check_size_seals(fd.get(), static_cast<uint64_t>(size)));
  ASSIGN_OR_RETURN(const Mapping mapping,
                   Mapping::map_fd(fd.get(), 0, static_cast<uint64_t>(size), MapMode::kRead));
  return std::string(reinterpret_cast<const char*>(mapping.data()), static_cast<size_t>(size));
}

Result<bool> send_reply(FdChannel& channel, const std::string& reply) {
  if (reply.size() <= kMaxInlineReply) return channel.send(bytes_of(reply));
  ASSIGN_OR_RETURN(const UniqueFd fd, sealed_memfd("control-reply", bytes_of(reply)));
  const int fds[] = {fd.get()};
  return channel.send(bytes_of(strf("{\"memfd\":%zu}", reply.size())), fds);
}

}  // namespace

Result<std::string> control_request(const std::string& dir,
                                    std::string_view request,
                                    Deadline deadline) {
  const std::string path = join_path(dir, kControlSocket);
  ASSIGN_OR_RETURN(FdChannel channel, FdChannel::connect(path));
  if (request.size() > kMaxControlRequest)
    return fail(Errc::kInvalid, strf("control request of %zu bytes, limit %zu", request.size(),
                                     kMaxControlRequest));
  ASSIGN_OR_RETURN(const bool sent, channel.send(bytes_of(request)));
  if (!sent) return fail(Errc::kBusy, path + ": request not taken");
  RETURN_IF_ERROR(wait_readable(channel.fd(), deadline, path.c_str()));
  std::string reply(kMaxInlineReply, '\0');
  UniqueFd fds[1];
  ASSIGN_OR_RETURN(
      const FdChannel::Received received,
      channel.receive(std::as_writable_bytes(std::span(reply.data(), reply.size())), fds));
  if (received.got != FdChannel::Got::kPacket)
    return fail(Errc::kProtocol, path + ": closed without an answer");
  reply.resize(received.bytes);
  if (received.fds == 0) return reply;
  ASSIGN_OR_RETURN(const Json header, Json::parse(reply));
  const Json* const size = header.find("memfd");
  return read_memfd(fds[0], size == nullptr ? 0 : size->int_or(0));
}

Result<ControlServer> ControlServer::listen(const std::string& dir) {
  ASSIGN_OR_RETURN(FdListener listener, FdListener::listen(dir, join_path(dir, kControlSocket)));
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!epoll.is_open() || epoll_ctl(epoll.get(), EPOLL_CTL_ADD, listener.fd(), &event) != 0)
    return fail_errno(Errc::kIo, "watching the control socket", errno);
  return ControlServer(std::move(listener), std::move(epoll));
}

void ControlServer::service(const Handler& handler) {
  for (size_t i = clients_.size(); i-- > 0;) {
    if (!answer(clients_[i], handler))
      clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  while (clients_.size() < kMaxControlClients) {
    auto channel = listener_.accept();
    if (!channel.ok() || !channel->is_open()) return;
    Client client{std::move(*channel), now_ns()};
    // The request has usually arrived with the connection; a client that is not done yet is
    // watched.
    if (!answer(client, handler)) continue;
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, client.channel.fd(), &event) == 0)
      clients_.push_back(std::move(client));
  }
  // Full: the next one waits in the backlog until an idle client is dropped.
}

// False when the client is finished with.
bool ControlServer::answer(Client& client, const Handler& handler) {
  std::byte request[kMaxControlRequest];
  const auto received = client.channel.receive(request);
  if (!received.ok() || received->got == FdChannel::Got::kClosed) return false;
  if (received->got == FdChannel::Got::kNothing) return now_ns() - client.since_ns < kIdleClientNs;
  const std::string reply =
      handler(std::string_view(reinterpret_cast<const char*>(request), received->bytes));
  // Whoever does not take the answer does not get it.
  (void)send_reply(client.channel, reply);
  return false;
}

}  // namespace modeld::ipc
