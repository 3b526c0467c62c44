// A text for whoever asks, over an AF_UNIX stream socket: metrics.sock. A client that says nothing
// and shuts its sending side down gets the text alone; one that sends an HTTP GET (curl
// --unix-socket, a scraper behind a proxy) gets it with a head of its own. The connection ends with
// the text. Contract: the server never blocks, never keeps more than kMaxTextClients, drops a
// client that asks for nothing within a second; nothing allocates while nobody asks. Threading: one
// thread per object; the client waits until its deadline.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/clock.h"
#include "hal/base/status.h"
#include "hal/base/unique_fd.h"

namespace modeld::ipc {

inline constexpr size_t kMaxTextClients = 8;
inline constexpr size_t kMaxTextBytes = 1 << 20;
inline constexpr const char* kMetricsSocket = "metrics.sock";

class TextServer final {
 public:
  // A stale socket file is replaced; kBusy when another process listens.
  static Result<TextServer> listen(const std::string& dir, const std::string& name);
  TextServer(TextServer&&) noexcept = default;
  ~TextServer();

  // An epoll descriptor over listener and clients, for the owner's loop.
  int poll_fd() const { return epoll_.get(); }
  // Accepts and answers. `text` is called once per answer; what it gives is used at once.
  using Source = std::function<std::string_view()>;
  void service(const Source& text);

 private:
  struct Client {
    UniqueFd fd;
    int64_t since_ns = 0;
  };
  TextServer(UniqueFd fd, UniqueFd epoll, std::string path);
  bool answer(Client& client, const Source& text);

  UniqueFd fd_;
  UniqueFd epoll_;
  std::string path_;
  std::vector<Client> clients_;
};

// The text of a TextServer.
Result<std::string> read_text_socket(const std::string& dir,
                                     const std::string& name,
                                     Deadline deadline);

}  // namespace modeld::ipc
