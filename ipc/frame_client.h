// The daemon's side of camera.sock: connects (again and again, every 100 ms, without blocking),
// checks the handshake and the seals and sizes of every buffer, maps each buffer once PROT_READ,
// and keeps the newest unread frame of each stream. A FrameRef gives its slot back in its
// destructor; frames replaced unread are counted as dropped. Contract: only wait_latest() waits.
// After the handshake nothing allocates. Threading: one thread (frame loop), also for the
// FrameRefs. A FrameRef may outlive the client and the connection.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hal/base/clock.h"
#include "hal/base/status.h"
#include "hal/base/unique_fd.h"

#include "ipc/frame.h"
#include "ipc/frame_protocol.h"

namespace modeld::ipc {

class FdChannel;
class FrameConnection;  // one accepted handshake: socket, descriptors, mappings

// A frame this process holds. Move-only; empty after a move.
class FrameRef final {
 public:
  FrameRef() = default;
  FrameRef(FrameRef&&) noexcept = default;
  FrameRef& operator=(FrameRef&& other) noexcept;
  ~FrameRef() { reset(); }
  // Gives the slot back now (the last of the references that share it does).
  void reset();
  // Another reference to the same frame.
  FrameRef share() const;

  explicit operator bool() const { return connection_ != nullptr; }
  const FrameMeta& meta() const { return meta_; }
  int64_t received_ns() const { return received_ns_; }  // after recvmsg
  const StreamInfo& info() const;
  std::span<const uint8_t> pixels() const;  // the whole buffer
  // Number of the connection it came over (FrameClient::epoch()).
  uint64_t epoch() const;

 private:
  friend class FrameClient;
  FrameRef(std::shared_ptr<FrameConnection> connection, const FrameMeta& meta, int64_t received_ns);
  // Shared: the mapping must outlive a reconnect for as long as somebody reads the frame.
  std::shared_ptr<FrameConnection> connection_;
  FrameMeta meta_;
  int64_t received_ns_ = 0;
};

class FrameClient final {
 public:
  explicit FrameClient(std::string socket_path);
  ~FrameClient();
  FrameClient(const FrameClient&) = delete;
  FrameClient& operator=(const FrameClient&) = delete;

  // For the owner's epoll: readable when poll() has something to do (connect again, handshake,
  // frames).
  int poll_fd() const { return epoll_.get(); }
  const std::string& path() const { return path_; }
  // Does all that can be done without waiting. An error is the reason why the connection was
  // refused or lost (once per connection attempt that got an answer; "nobody listens" is not an
  // error but !connected()).
  Status poll();

  bool connected() const { return connection_ != nullptr; }
  // Counts accepted handshakes; a change means new buffers (hand the descriptors to the worker
  // again).
  uint64_t epoch() const { return epoch_; }
  // Nothing while not connected.
  const Handshake* handshake() const;
  // nullptr if the server does not have the stream.
  const StreamInfo* stream(StreamId stream) const;
  // Descriptors of the stream's slots, in slot order; owned by the connection.
  std::span<const int> slot_fds(StreamId stream) const;
  // Mapped buffer of a slot; empty if there is none.
  std::span<const uint8_t> slot_pixels(StreamId stream, uint32_t slot) const;

  // Newest unread frame of a stream, or an empty reference.
  FrameRef take(StreamId stream);
  bool has_unread(StreamId stream) const {
    return static_cast<bool>(latest_[static_cast<size_t>(stream)]);
  }
  // Waits until `stream` has an unread frame or the deadline passes; empty reference then.
  Result<FrameRef> wait_latest(StreamId stream, Deadline deadline);
  // Frames replaced unread, plus gaps in the frame ids that were received.
  uint64_t dropped(StreamId stream) const { return dropped_[static_cast<size_t>(stream)]; }

 private:
  Status try_connect();
  Status read_handshake();
  Status read_frames();
  void disconnect();
  void keep(FrameRef frame);
  // First tick after `first_ns`, then every 100 ms; 0 stops it.
  void arm_retry(int64_t first_ns);

  std::string path_;
  UniqueFd epoll_;
  UniqueFd timer_;
  std::unique_ptr<FdChannel> pending_;  // connected, handshake not read yet
  std::shared_ptr<FrameConnection> connection_;
  std::array<FrameRef, kStreamCount> latest_;
  std::array<uint64_t, kStreamCount> dropped_{};
  std::array<uint64_t, kStreamCount> last_id_{};
  std::array<bool, kStreamCount> seen_{};
  int64_t pending_since_ns_ = 0;
  uint64_t epoch_ = 0;
};

}  // namespace modeld::ipc
