#include "ipc/subscriber.h"

#include <zmq.h>

#include <cerrno>
#include <vector>

namespace modeld::ipc {
namespace {

class ZmqReceiver final : public Receiver {
 public:
  ZmqReceiver(void* socket, Topic topic)
      : socket_(socket), topic_(topic), words_(kMaxMessageBytes / sizeof(uint64_t)) {}
  ~ZmqReceiver() override { zmq_close(socket_); }
  ZmqReceiver(const ZmqReceiver&) = delete;
  ZmqReceiver& operator=(const ZmqReceiver&) = delete;

  Result<std::span<const std::byte>> receive() override {
    // Oversized and multi-part messages are skipped, but not for ever.
    for (int tries = 0; tries < kMaxDrain; ++tries) {
      const int n = zmq_recv(socket_, words_.data(), kMaxMessageBytes, ZMQ_DONTWAIT);
      if (n < 0) {
        if (zmq_errno() == EAGAIN || zmq_errno() == EINTR) return std::span<const std::byte>{};
        return fail(Errc::kIo,
                    strf("topic %s: %s", topic_info(topic_).name, zmq_strerror(zmq_errno())));
      }
      const bool whole = static_cast<size_t>(n) <= kMaxMessageBytes && n > 0;
      if (!drop_further_parts() && whole)
        return std::span(reinterpret_cast<const std::byte*>(words_.data()), static_cast<size_t>(n));
    }
    return std::span<const std::byte>{};
  }

  int poll_fd() const override {
    int fd = -1;
    size_t size = sizeof(fd);
    return zmq_getsockopt(socket_, ZMQ_FD, &fd, &size) == 0 ? fd : -1;
  }

 private:
  // True if the message had more than one part (ours never have).
  bool drop_further_parts() {
    bool had_more = false;
    int more = 0;
    size_t size = sizeof(more);
    while (zmq_getsockopt(socket_, ZMQ_RCVMORE, &more, &size) == 0 && more != 0) {
      had_more = true;
      char ignored = 0;
      if (zmq_recv(socket_, &ignored, sizeof(ignored), ZMQ_DONTWAIT) < 0) break;
    }
    return had_more;
  }

  void* socket_;
  Topic topic_;
  std::vector<uint64_t> words_;  // aligned for Cap'n Proto
};

Status set_option(void* socket, int option, int value) {
  if (zmq_setsockopt(socket, option, &value, sizeof(value)) == 0) return {};
  return fail(Errc::kIo,
              strf("socket option %d = %d: %s", option, value, zmq_strerror(zmq_errno())));
}

Status configure(void* socket, Topic topic) {
  RETURN_IF_ERROR(set_option(socket, ZMQ_RCVHWM, topic_info(topic).queue_depth));
  RETURN_IF_ERROR(set_option(socket, ZMQ_LINGER, 0));
  // Fast enough that a late start of the publisher costs a subscriber less than one state period.
  RETURN_IF_ERROR(set_option(socket, ZMQ_RECONNECT_IVL, 20));
  RETURN_IF_ERROR(set_option(socket, ZMQ_RECONNECT_IVL_MAX, 20));
  const auto limit = static_cast<int64_t>(kMaxMessageBytes);
  if (zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &limit, sizeof(limit)) != 0 ||
      zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0) != 0)
    return fail(Errc::kIo, strf("subscribing: %s", zmq_strerror(zmq_errno())));
  return {};
}

}  // namespace

Result<std::unique_ptr<Receiver>> connect_topic(ZmqContext& context,
                                                const std::string& dir,
                                                Topic topic) {
  ASSIGN_OR_RETURN(const std::string path, topic_path(dir, topic));
  void* socket = zmq_socket(context.handle(), ZMQ_SUB);
  if (socket == nullptr)
    return fail(Errc::kIo, strf("topic %s: %s", topic_info(topic).name, zmq_strerror(zmq_errno())));
  auto receiver = std::make_unique<ZmqReceiver>(socket, topic);
  RETURN_IF_ERROR(configure(socket, topic));
  if (zmq_connect(socket, ("ipc://" + path).c_str()) != 0)
    return fail(Errc::kIo, strf("connecting %s: %s", path.c_str(), zmq_strerror(zmq_errno())));
  return receiver;
}

}  // namespace modeld::ipc
