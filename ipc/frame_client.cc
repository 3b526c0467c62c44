#include "ipc/frame_client.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "hal/base/check.h"
#include "hal/base/mapping.h"
#include "hal/base/trace.h"

#include "ipc/fd_channel.h"

namespace modeld::ipc {
namespace {

constexpr int64_t kRetryNs = 100 * kNsPerMs;
// A server that accepts but says nothing is given up after this.
constexpr int64_t kHandshakeNs = kNsPerSecond;
constexpr int kMaxPacketsPerPoll = 64;
constexpr long kDmaBufMagic = 0x444d4142;

// A buffer may be mapped if nobody can shrink it under us: a memfd with its size sealed, or a
// dma-buf (fixed by nature).
Status check_buffer(int fd, uint64_t min_bytes) {
  struct statfs info {};
  if (fstatfs(fd, &info) == 0 && static_cast<long>(info.f_type) == kDmaBufMagic) {
    const off_t size = lseek(fd, 0, SEEK_END);
    if (size >= 0 && static_cast<uint64_t>(size) >= min_bytes) return {};
    return fail(Errc::kInvalid,
                strf("dma-buf of %lld bytes, need %llu", static_cast<long long>(size),
                     static_cast<unsigned long long>(min_bytes)));
  }
  return check_size_seals(fd, min_bytes);
}

}  // namespace

class FrameConnection {
 public:
  static Result<std::shared_ptr<FrameConnection>> create(FdChannel channel,
                                                         Handshake handshake,
                                                         std::span<UniqueFd> fds,
                                                         uint64_t epoch);

  void hold(const FrameMeta& meta) { ++holders(meta); }
  // The slot goes back with its last holder.
  void release(const FrameMeta& meta) {
    if (--holders(meta) > 0 || !channel_.is_open()) return;
    PacketBuffer packet;
    const size_t size = encode_release({meta.stream, meta.slot, meta.frame_id}, packet);
    // The queue holds far more than we can owe; a failure means that the server is gone and with it
    // the debt.
    const auto sent = channel_.send(std::span(packet).first(size));
    if (!sent.ok() || !*sent) broken_ = true;
  }

  FdChannel& channel() { return channel_; }
  const Handshake& handshake() const { return handshake_; }
  bool is_broken() const { return broken_; }
  uint64_t epoch() const { return epoch_; }
  const StreamInfo* info(StreamId stream) const {
    for (uint32_t i = 0; i < handshake_.stream_count; ++i) {
      if (handshake_.streams[i].stream == stream) return &handshake_.streams[i];
    }
    return nullptr;
  }
  std::span<const int> fds(StreamId stream) const { return fds_[static_cast<size_t>(stream)]; }
  std::span<const uint8_t> pixels(StreamId stream, uint32_t slot) const {
    const auto& maps = mappings_[static_cast<size_t>(stream)];
    if (slot >= maps.size()) return {};
    return {reinterpret_cast<const uint8_t*>(maps[slot].data()), maps[slot].size()};
  }

 private:
  uint8_t& holders(const FrameMeta& meta) {
    return holders_[static_cast<size_t>(meta.stream)][meta.slot % kMaxSlotsPerStream];
  }

  FdChannel channel_;
  Handshake handshake_;
  // References of this process per slot.
  std::array<std::array<uint8_t, kMaxSlotsPerStream>, kStreamCount> holders_{};
  std::vector<UniqueFd> owned_;
  std::array<std::vector<int>, kStreamCount> fds_;
  std::array<std::vector<Mapping>, kStreamCount> mappings_;
  uint64_t epoch_ = 0;
  bool broken_ = false;
};

Result<std::shared_ptr<FrameConnection>> FrameConnection::create(FdChannel channel,
                                                                 Handshake handshake,
                                                                 std::span<UniqueFd> fds,
                                                                 uint64_t epoch) {
  auto out = std::make_shared<FrameConnection>();
  size_t next = 0;
  for (uint32_t i = 0; i < handshake.stream_count; ++i) {
    const StreamInfo& info = handshake.streams[i];
    const auto stream = static_cast<size_t>(info.stream);
    for (uint32_t slot = 0; slot < info.slots; ++slot) {
      UniqueFd fd = std::move(fds[next++]);
      if (auto checked = check_buffer(fd.get(), info.geometry.size); !checked.ok())
        return fail(std::move(checked).error().with(
            strf("camera buffer %s %u", stream_name(info.stream), slot)));
      ASSIGN_OR_RETURN(Mapping mapping,
                       Mapping::map_fd(fd.get(), 0, info.geometry.size, MapMode::kRead));
      out->mappings_[stream].push_back(std::move(mapping));
      out->fds_[stream].push_back(fd.get());
      out->owned_.push_back(std::move(fd));
    }
  }
  out->channel_ = std::move(channel);
  out->handshake_ = std::move(handshake);
  out->epoch_ = epoch;
  return out;
}

FrameRef::FrameRef(std::shared_ptr<FrameConnection> connection,
                   const FrameMeta& meta,
                   int64_t received_ns)
    : connection_(std::move(connection)), meta_(meta), received_ns_(received_ns) {
  connection_->hold(meta_);
}

FrameRef FrameRef::share() const {
  return connection_ == nullptr ? FrameRef() : FrameRef(connection_, meta_, received_ns_);
}

FrameRef& FrameRef::operator=(FrameRef&& other) noexcept {
  if (this == &other) return *this;
  reset();
  connection_ = std::move(other.connection_);
  meta_ = other.meta_;
  received_ns_ = other.received_ns_;
  return *this;
}

void FrameRef::reset() {
  if (connection_ == nullptr) return;
  connection_->release(meta_);
  connection_.reset();
}

const StreamInfo& FrameRef::info() const {
  return *connection_->info(meta_.stream);
}
std::span<const uint8_t> FrameRef::pixels() const {
  return connection_->pixels(meta_.stream, meta_.slot);
}
uint64_t FrameRef::epoch() const {
  return connection_->epoch();
}

FrameClient::FrameClient(std::string socket_path)
    : path_(std::move(socket_path)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  CHECK(epoll_.is_open() && timer_.is_open());
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = timer_.get();
  CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &event) == 0);
  arm_retry(1);
}

FrameClient::~FrameClient() = default;

void FrameClient::arm_retry(int64_t first_ns) {
  itimerspec when{};
  when.it_value.tv_nsec = first_ns;
  when.it_interval.tv_nsec = first_ns == 0 ? 0 : kRetryNs;
  CHECK(timerfd_settime(timer_.get(), 0, &when, nullptr) == 0);
}

Status FrameClient::poll() {
  uint64_t ticks = 0;
  const bool retry = read(timer_.get(), &ticks, sizeof(ticks)) == sizeof(ticks);
  if (connection_ != nullptr) return read_frames();
  if (pending_ == nullptr && retry) RETURN_IF_ERROR(try_connect());
  if (pending_ == nullptr) return {};
  RETURN_IF_ERROR(read_handshake());
  return connection_ != nullptr ? read_frames() : Status();
}

Status FrameClient::try_connect() {
  auto channel = FdChannel::connect(path_);
  if (!channel.ok()) {
    // Nobody listens yet: the normal state before the camera server starts.
    const Errc code = channel.error().code;
    if (code == Errc::kNotFound || code == Errc::kBusy) return {};
    return fail(std::move(channel).error());
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = channel->fd();
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, channel->fd(), &event) != 0)
    return fail_errno(Errc::kIo, "watching " + path_, errno);
  pending_ = std::make_unique<FdChannel>(std::move(*channel));
  pending_since_ns_ = now_ns();
  return {};
}

Status FrameClient::read_handshake() {
  PacketBuffer packet;
  std::array<UniqueFd, kMaxFdsPerPacket> fds;
  const auto received = pending_->receive(packet, fds);
  if (received.ok() && received->got == FdChannel::Got::kNothing) {
    if (now_ns() - pending_since_ns_ < kHandshakeNs) return {};
    pending_.reset();
    return fail(Errc::kTimeout, "camera server " + path_ + " accepted but sent no handshake");
  }
  const auto channel = std::move(pending_);
  if (!received.ok()) return fail(Error(received.error()).with("camera server " + path_));
  if (received->got == FdChannel::Got::kClosed)
    return fail(Errc::kBusy,
                "camera server " + path_ + " closed the connection (too many clients)");
  auto handshake = parse_handshake(std::span(packet).first(received->bytes));
  if (!handshake.ok()) return fail(std::move(handshake).error().with("camera server " + path_));
  if (handshake->slot_total() != received->fds)
    return fail(Errc::kProtocol, strf("camera server %s: handshake names %u buffers, %zu came",
                                      path_.c_str(), handshake->slot_total(), received->fds));
  auto connection = FrameConnection::create(std::move(*channel), std::move(*handshake),
                                            std::span(fds).first(received->fds), epoch_ + 1);
  if (!connection.ok()) return fail(std::move(connection).error().with("camera server " + path_));
  connection_ = std::move(*connection);
  ++epoch_;
  seen_ = {};
  arm_retry(0);
  return {};
}

Status FrameClient::read_frames() {
  for (int i = 0; i < kMaxPacketsPerPoll; ++i) {
    PacketBuffer packet;
    const auto received = connection_->channel().receive(packet);
    const int64_t received_ns = now_ns();
    if (received.ok() && received->got == FdChannel::Got::kNothing && !connection_->is_broken())
      return {};
    if (!received.ok() || received->got != FdChannel::Got::kPacket) {
      disconnect();
      return fail(Errc::kIo, "camera server " + path_ + " went away");
    }
    const auto meta = parse_frame(std::span(packet).first(received->bytes));
    const StreamInfo* const info = meta.ok() ? connection_->info(meta->stream) : nullptr;
    if (info == nullptr || meta->slot >= info->slots) {
      disconnect();
      return fail(Errc::kProtocol,
                  "camera server " + path_ + ": " +
                      (meta.ok() ? "frame of an unknown stream or slot" : meta.error().what));
    }
    keep(FrameRef(connection_, *meta, received_ns));
  }
  return {};
}

void FrameClient::keep(FrameRef frame) {
  const auto stream = static_cast<size_t>(frame.meta().stream);
  const uint64_t id = frame.meta().frame_id;
  TraceZone zone("keep", static_cast<int64_t>(id), stream_name(frame.meta().stream));
  if (seen_[stream] && id > last_id_[stream]) dropped_[stream] += id - last_id_[stream] - 1;
  seen_[stream] = true;
  last_id_[stream] = id;
  if (latest_[stream]) ++dropped_[stream];
  latest_[stream] = std::move(frame);
}

void FrameClient::disconnect() {
  for (FrameRef& frame : latest_) frame.reset();
  // References that are still out keep the mappings, but the socket must leave our epoll now.
  connection_->channel().close();
  connection_.reset();
  arm_retry(kRetryNs);
}

const Handshake* FrameClient::handshake() const {
  return connection_ == nullptr ? nullptr : &connection_->handshake();
}

const StreamInfo* FrameClient::stream(StreamId stream) const {
  return connection_ == nullptr ? nullptr : connection_->info(stream);
}

std::span<const int> FrameClient::slot_fds(StreamId stream) const {
  return connection_ == nullptr ? std::span<const int>() : connection_->fds(stream);
}

std::span<const uint8_t> FrameClient::slot_pixels(StreamId stream, uint32_t slot) const {
  return connection_ == nullptr ? std::span<const uint8_t>() : connection_->pixels(stream, slot);
}

FrameRef FrameClient::take(StreamId stream) {
  return std::move(latest_[static_cast<size_t>(stream)]);
}

Result<FrameRef> FrameClient::wait_latest(StreamId stream, Deadline deadline) {
  for (;;) {
    RETURN_IF_ERROR(poll());
    if (has_unread(stream)) return take(stream);
    if (deadline.has_passed()) return FrameRef();
    pollfd wait{epoll_.get(), POLLIN, 0};
    const int64_t left = deadline.left_ns();
    const timespec time{static_cast<time_t>(left / kNsPerSecond),
                        static_cast<long>(left % kNsPerSecond)};
    if (ppoll(&wait, 1, &time, nullptr) < 0 && errno != EINTR)
      return fail_errno(Errc::kIo, "waiting for a frame", errno);
  }
}

}  // namespace modeld::ipc
