#include "ipc/frame_server.h"

#include <bit>
#include <utility>

namespace modeld::ipc {

Result<std::unique_ptr<FrameServer>> FrameServer::create(const std::string& dir,
                                                         const std::string& socket_path,
                                                         const Handshake& handshake) {
  PacketBuffer checked;
  RETURN_IF_ERROR(encode_handshake(handshake, checked));
  if (handshake.slot_total() > kMaxFdsPerPacket)
    return fail(Errc::kInvalid, strf("camera server: %u buffers, limit %zu", handshake.slot_total(),
                                     kMaxFdsPerPacket));
  ASSIGN_OR_RETURN(FdListener listener, FdListener::listen(dir, socket_path));
  auto server = std::unique_ptr<FrameServer>(new FrameServer(std::move(listener), handshake));
  for (uint32_t i = 0; i < handshake.stream_count; ++i) {
    const StreamInfo& info = handshake.streams[i];
    ASSIGN_OR_RETURN(FramePool pool, FramePool::create(info));
    server->pools_[static_cast<size_t>(info.stream)] = std::make_unique<FramePool>(std::move(pool));
  }
  server->clients_.reserve(kMaxFrameClients);
  return server;
}

FramePool* FrameServer::pool(StreamId stream) {
  return pools_[static_cast<size_t>(stream)].get();
}

void FrameServer::service() {
  for (size_t i = clients_.size(); i-- > 0;) {
    if (!take_releases(clients_[i])) drop_client(i);
  }
  accept_clients();
}

void FrameServer::accept_clients() {
  for (uint32_t tries = 0; tries < kMaxFrameClients; ++tries) {
    auto accepted = listener_.accept();
    if (!accepted.ok() || !accepted->is_open()) return;
    // One more could starve the others: it is told so by the closed socket.
    if (clients_.size() >= kMaxFrameClients) continue;
    PacketBuffer packet;
    const auto size = encode_handshake(handshake_, packet);
    std::array<int, kMaxFdsPerPacket> fds{};
    size_t count = 0;
    for (uint32_t i = 0; i < handshake_.stream_count; ++i) {
      const FramePool& of = *pool(handshake_.streams[i].stream);
      for (uint32_t slot = 0; slot < of.info().slots; ++slot) fds[count++] = of.fd(slot);
    }
    const auto sent = accepted->send(std::span(packet).first(*size), std::span(fds).first(count));
    if (sent.ok() && *sent) clients_.push_back(Client{std::move(*accepted), {}});
  }
}

bool FrameServer::take_releases(Client& client) {
  // A client can owe at most what it may hold; whoever sends more than that is wrong anyway.
  for (uint32_t i = 0; i < 2 * kFramesPerClient * kStreamCount; ++i) {
    PacketBuffer packet;
    const auto received = client.channel.receive(packet);
    if (!received.ok() || received->got == FdChannel::Got::kClosed) return false;
    if (received->got == FdChannel::Got::kNothing) return true;
    const auto release = parse_release(std::span(packet).first(received->bytes));
    if (!release.ok()) return false;
    const auto stream = static_cast<size_t>(release->stream);
    const uint64_t bit = uint64_t{1} << release->slot;
    if ((client.held[stream] & bit) == 0) return false;
    client.held[stream] &= ~bit;
    pool(release->stream)->release(release->slot);
  }
  return true;
}

void FrameServer::drop_client(size_t index) {
  Client& client = clients_[index];
  for (size_t stream = 0; stream < kStreamCount; ++stream) {
    for (uint64_t held = client.held[stream]; held != 0; held &= held - 1)
      pools_[stream]->release(static_cast<uint32_t>(std::countr_zero(held)));
  }
  clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(index));
}

std::optional<FrameServer::Writable> FrameServer::begin_frame(StreamId stream) {
  FramePool* const of = pool(stream);
  if (of == nullptr) return std::nullopt;
  const auto slot = of->acquire();
  if (!slot.has_value()) {
    ++lost_all_;
    return std::nullopt;
  }
  return Writable{*slot, of->pixels(*slot)};
}

void FrameServer::publish(const FrameMeta& meta) {
  FramePool* const of = pool(meta.stream);
  if (of == nullptr || meta.slot >= of->info().slots) return;
  PacketBuffer packet;
  const size_t size = encode_frame(meta, packet);
  const auto stream = static_cast<size_t>(meta.stream);
  for (size_t i = clients_.size(); i-- > 0;) {
    Client& client = clients_[i];
    if (std::popcount(client.held[stream]) >= static_cast<int>(kFramesPerClient)) {
      ++lost_slow_;
      continue;
    }
    const auto sent = client.channel.send(std::span(packet).first(size));
    if (!sent.ok()) {
      drop_client(i);
    } else if (*sent) {
      client.held[stream] |= uint64_t{1} << meta.slot;
      of->hold(meta.slot);
    } else {
      ++lost_slow_;
    }
  }
}

}  // namespace modeld::ipc
