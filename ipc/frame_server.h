// The camera's side of camera.sock: pools per stream, clients, who got which frame. modelcam is its
// user. Contract: publish() never blocks; each client holds at most kFramesPerClient frames of a
// stream, further frames are lost for that client only; there are more slots than all clients
// together can hold, so nobody starves another; a client that dies or sends nonsense gives
// everything back. Threading: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "ipc/fd_channel.h"
#include "ipc/frame_pool.h"
#include "ipc/frame_protocol.h"

namespace modeld::ipc {

inline constexpr uint32_t kMaxFrameClients = 4;
inline constexpr uint32_t kFramesPerClient = 4;
// One to write, one spare, and what the clients may hold.
inline constexpr uint32_t kDefaultSlots = kMaxFrameClients * kFramesPerClient + 2;

class FrameServer final {
 public:
  // `handshake.streams[i].slots` are the pool sizes (kDefaultSlots keeps the contract above).
  static Result<std::unique_ptr<FrameServer>> create(const std::string& dir,
                                                     const std::string& socket_path,
                                                     const Handshake& handshake);

  // Accepts clients and takes releases; call before each frame. Never blocks.
  void service();

  struct Writable {
    uint32_t slot = 0;
    std::span<uint8_t> pixels;
  };
  // A buffer to draw into, or nothing while every slot is held (the frame is lost for all,
  // counted).
  std::optional<Writable> begin_frame(StreamId stream);
  // Sends it to every client that may have one more.
  void publish(const FrameMeta& meta);

  int listen_fd() const { return listener_.fd(); }
  size_t client_count() const { return clients_.size(); }
  uint64_t lost_for_slow_clients() const { return lost_slow_; }
  uint64_t lost_for_all() const { return lost_all_; }

 private:
  struct Client {
    FdChannel channel;
    std::array<uint64_t, kStreamCount> held{};  // bit per slot
  };
  FrameServer(FdListener listener, Handshake handshake)
      : listener_(std::move(listener)), handshake_(std::move(handshake)) {}
  void accept_clients();
  bool take_releases(Client& client);
  void drop_client(size_t index);
  FramePool* pool(StreamId stream);

  FdListener listener_;
  Handshake handshake_;
  std::array<std::unique_ptr<FramePool>, kStreamCount> pools_;
  std::vector<Client> clients_;
  uint64_t lost_slow_ = 0;
  uint64_t lost_all_ = 0;
};

}  // namespace modeld::ipc
