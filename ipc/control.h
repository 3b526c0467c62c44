// control.sock: one JSON request, one JSON reply per connection (SEQPACKET). A reply over
// kMaxInlineReply bytes travels in a sealed memfd beside the packet {"memfd": bytes}; both ends
// hide that. Requests: {"command": "status" | "trace" | "reload"}; replies: {"ok": true, ...} or
// {"ok": false, "error": "..."}. Threading: one thread per object. The server never blocks; the
// client waits until its deadline.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/clock.h"
#include "hal/base/status.h"

#include "ipc/fd_channel.h"

namespace modeld::ipc {

inline constexpr size_t kMaxControlRequest = 4096;
inline constexpr size_t kMaxInlineReply = 32 * 1024;
inline constexpr size_t kMaxControlReply = 256u << 20;
inline constexpr size_t kMaxControlClients = 8;

// The file name inside the runtime directory.
inline constexpr const char* kControlSocket = "control.sock";

// The reply's text, as sent.
Result<std::string> control_request(const std::string& dir,
                                    std::string_view request,
                                    Deadline deadline);

class ControlServer final {
 public:
  // Takes one request (untrusted text, not parsed yet) and gives the reply.
  using Handler = std::function<std::string(std::string_view request)>;
  static Result<ControlServer> listen(const std::string& dir);

  // An epoll descriptor over listener and clients, for the owner's loop.
  int poll_fd() const { return epoll_.get(); }
  // Accepts, answers what has arrived, drops idle clients after 1 s.
  void service(const Handler& handler);

 private:
  struct Client {
    FdChannel channel;
    int64_t since_ns = 0;
  };
  ControlServer(FdListener listener, UniqueFd epoll)
      : listener_(std::move(listener)), epoll_(std::move(epoll)) {}
  bool answer(Client& client, const Handler& handler);

  FdListener listener_;
  UniqueFd epoll_;
  std::vector<Client> clients_;
};

}  // namespace modeld::ipc
