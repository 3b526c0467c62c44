#include "ipc/publisher.h"

#include <unistd.h>
#include <zmq.h>

#include <cerrno>

#include "hal/base/clock.h"
#include "hal/base/trace.h"

#include "ipc/runtime_dir.h"

namespace modeld::ipc {
namespace {

class ZmqSender final : public Sender {
 public:
  explicit ZmqSender(void* socket) : socket_(socket) {}
  ~ZmqSender() override {
    zmq_close(socket_);
    // libzmq leaves the file behind. Nobody else may bind it while we live: modeld holds a lock on
    // the directory, modelcam the camera socket.
    if (!path_.empty()) unlink(path_.c_str());
  }
  ZmqSender(const ZmqSender&) = delete;
  ZmqSender& operator=(const ZmqSender&) = delete;

  Status send(std::span<const std::byte> bytes) override {
    if (zmq_send(socket_, bytes.data(), bytes.size(), ZMQ_DONTWAIT) >= 0) return {};
    // A PUB socket drops for those that are behind; anything else is worth a line.
    if (zmq_errno() == EAGAIN) return {};
    return fail(Errc::kIo, strf("sending %zu bytes: %s", bytes.size(), zmq_strerror(zmq_errno())));
  }

  void bound_at(const std::string& path) { path_ = path; }

 private:
  void* socket_;
  std::string path_;
};

Status set_option(void* socket, int option, int value) {
  if (zmq_setsockopt(socket, option, &value, sizeof(value)) == 0) return {};
  return fail(Errc::kIo,
              strf("socket option %d = %d: %s", option, value, zmq_strerror(zmq_errno())));
}

// Whose event a message is, in a trace.
const char* tag_of(const RoadMessage&) {
  return "road";
}
const char* tag_of(const CabinMessage&) {
  return "cabin";
}
const char* tag_of(const StateMessage&) {
  return "state";
}
const char* tag_of(const VehicleMessage&) {
  return "vehicle";
}
const char* tag_of(const MetricsMessage&) {
  return "metrics";
}

}  // namespace

Result<std::unique_ptr<Sender>> bind_topic(ZmqContext& context,
                                           const std::string& dir,
                                           Topic topic) {
  ASSIGN_OR_RETURN(const std::string path, topic_path(dir, topic));
  void* socket = zmq_socket(context.handle(), ZMQ_PUB);
  if (socket == nullptr)
    return fail(Errc::kIo, strf("topic %s: %s", topic_info(topic).name, zmq_strerror(zmq_errno())));
  auto sender = std::make_unique<ZmqSender>(socket);
  RETURN_IF_ERROR(set_option(socket, ZMQ_SNDHWM, topic_info(topic).queue_depth));
  RETURN_IF_ERROR(set_option(socket, ZMQ_LINGER, 0));
  if (zmq_bind(socket, ("ipc://" + path).c_str()) != 0)
    return fail(Errc::kIo, strf("binding %s: %s", path.c_str(), zmq_strerror(zmq_errno())));
  sender->bound_at(path);
  RETURN_IF_ERROR(share_socket(dir, path));
  return sender;
}

template <class M>
Status Publisher::publish_plain(M& message) {
  message.header.sequence = sequence_;
  message.header.time_ns = now_ns();
  const auto frame = static_cast<int64_t>(message.header.frame_id);
  {
    TraceZone zone("build_message", frame, tag_of(message));
    RETURN_IF_ERROR(build_message(message, buffer_));
  }
  {
    TraceZone zone("send", frame, tag_of(message));
    RETURN_IF_ERROR(sender_.send(buffer_.bytes()));
  }
  ++sequence_;
  return {};
}

template <class M>
Status Publisher::publish_timed(M& message) {
  const int64_t received_ns = message.timings.received_ns;
  message.timings.previous_latency_ns = last_latency_ns_;
  message.timings.latency_ns = received_ns > 0 ? now_ns() - received_ns : 0;
  last_latency_ns_ = 0;
  RETURN_IF_ERROR(publish_plain(message));
  if (received_ns > 0) last_latency_ns_ = now_ns() - received_ns;
  return {};
}

Status Publisher::publish(VehicleMessage& message) {
  return publish_plain(message);
}
Status Publisher::publish(RoadMessage& message) {
  return publish_timed(message);
}
Status Publisher::publish(CabinMessage& message) {
  return publish_timed(message);
}
Status Publisher::publish(StateMessage& message) {
  return publish_plain(message);
}
Status Publisher::publish(MetricsMessage& message) {
  return publish_plain(message);
}

}  // namespace modeld::ipc
