#include "ipc/text_server.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "hal/base/fs.h"

#include "ipc/runtime_dir.h"

namespace modeld::ipc {
namespace {

constexpr int64_t kIdleClientNs = kNsPerSecond;

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  if (path.size() >= sizeof(out.sun_path))
    return fail(Errc::kInvalid, strf("socket path of %zu bytes, limit %zu: %s", path.size(),
                                     sizeof(out.sun_path) - 1, path.c_str()));
  std::memcpy(out.sun_path, path.c_str(), path.size() + 1);
  return out;
}

Result<UniqueFd> connect_to(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, address_of(path));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return fail_errno(Errc::kIo, "making a socket", errno);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return fail_errno(Errc::kNotFound, "connecting to " + path, errno);
  return fd;
}

// Whole or not at all: a client whose queue has no room for the text does without.
void send_all(int fd, std::string_view head, std::string_view text) {
  const int room = static_cast<int>(head.size() + text.size()) * 2;
  (void)!setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
  iovec parts[2] = {{const_cast<char*>(head.data()), head.size()},
                    {const_cast<char*>(text.data()), text.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  (void)!sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

TextServer::TextServer(UniqueFd fd, UniqueFd epoll, std::string path)
    : fd_(std::move(fd)), epoll_(std::move(epoll)), path_(std::move(path)) {
  clients_.reserve(kMaxTextClients);
}

TextServer::~TextServer() {
  if (fd_.is_open()) unlink(path_.c_str());
}

Result<TextServer> TextServer::listen(const std::string& dir, const std::string& name) {
  const std::string path = join_path(dir, name);
  ASSIGN_OR_RETURN(const sockaddr_un address, address_of(path));
  const auto alive = connect_to(path);
  if (alive.ok()) return fail(Errc::kBusy, "socket " + path + ": another process listens there");
  struct stat info {};
  // Only a socket nobody listens on is ours to remove.
  if (alive.error().sys == ECONNREFUSED && lstat(path.c_str(), &info) == 0 &&
      S_ISSOCK(info.st_mode))
    unlink(path.c_str());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return fail_errno(Errc::kIo, "making a socket", errno);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return fail_errno(Errc::kIo, "binding " + path, errno);
  RETURN_IF_ERROR(share_socket(dir, path));
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd.get();
  if (::listen(fd.get(), kMaxTextClients) != 0 || !epoll.is_open() ||
      epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0)
    return fail_errno(Errc::kIo, "listening on " + path, errno);
  return TextServer(std::move(fd), std::move(epoll), path);
}

void TextServer::service(const Source& text) {
  for (size_t i = clients_.size(); i-- > 0;) {
    if (!answer(clients_[i], text))
      clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  while (clients_.size() < kMaxTextClients) {
    UniqueFd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.is_open()) return;
    Client client{std::move(fd), now_ns()};
    if (!answer(client, text)) continue;
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.fd = client.fd.get();
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, client.fd.get(), &event) == 0)
      clients_.push_back(std::move(client));
  }
}

// False when the client is finished with.
bool TextServer::answer(Client& client, const Source& text) {
  std::array<char, 4096> request;
  const ssize_t n = recv(client.fd.get(), request.data(), request.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return now_ns() - client.since_ns < kIdleClientNs;
  if (n < 0) return false;
  const std::string_view asked(request.data(), static_cast<size_t>(n));
  if (!asked.empty() && asked.rfind("GET ", 0) != 0) return false;
  const std::string_view body = text();
  std::string head;
  if (!asked.empty())
    head = strf(
        "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        "Content-Length: %zu\r\n\r\n",
        body.size());
  send_all(client.fd.get(), head, body);
  return false;
}

Result<std::string> read_text_socket(const std::string& dir,
                                     const std::string& name,
                                     Deadline deadline) {
  const std::string path = join_path(dir, name);
  ASSIGN_OR_RETURN(const UniqueFd fd, connect_to(path));
  shutdown(fd.get(), SHUT_WR);
  std::string out;
  std::array<char, 16384> chunk;
  while (out.size() <= kMaxTextBytes) {
    pollfd wait{fd.get(), POLLIN, 0};
    const int ready = ::poll(&wait, 1, deadline.left_ms());
    if (ready < 0 && errno != EINTR) return fail_errno(Errc::kIo, path, errno);
    if (ready <= 0 && deadline.has_passed())
      return fail(Errc::kTimeout, path + ": no answer in time");
    const ssize_t n = recv(fd.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (n > 0) out.append(chunk.data(), static_cast<size_t>(n));
    if (n == 0 && out.empty()) return fail(Errc::kProtocol, path + ": closed without an answer");
    if (n == 0) return out;
    if (n < 0 && errno != EAGAIN && errno != EINTR) return fail_errno(Errc::kIo, path, errno);
  }
  return fail(Errc::kProtocol, strf("%s: more than %zu bytes", path.c_str(), kMaxTextBytes));
}

}  // namespace modeld::ipc
