// Building and reading messages: plain structs to one Cap'n Proto segment and back. The only place
// that knows Cap'n Proto's exceptions; they come out as Status. Readers trust nothing: traversal
// and nesting limits, list sizes, enum values and text lengths are checked, and an object is either
// fully read or an error. Threading: a MessageBuffer belongs to one thread. Building does not
// allocate after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "hal/base/status.h"

#include "ipc/message_types.h"
#include "ipc/topics.h"

namespace modeld::ipc {

// Text longer than this is cut on building and refused on reading (bytes).
inline constexpr size_t kMaxText = 512;
// A message larger than this is refused unread (bytes).
inline constexpr size_t kMaxMessageBytes = 512 * 1024;

// One preallocated, reused segment: the framed bytes of the last built message.
class MessageBuffer final {
 public:
  // `capacity_bytes` bounds the largest message that can be built.
  explicit MessageBuffer(size_t capacity_bytes = kMaxMessageBytes);
  ~MessageBuffer();
  MessageBuffer(MessageBuffer&&) noexcept;
  MessageBuffer& operator=(MessageBuffer&&) noexcept;

  // Bytes to send; valid until the next build.
  std::span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte*>(words_.get()), size_bytes_};
  }

 private:
  friend class MessageScope;
  std::unique_ptr<uint64_t[]> words_;  // word 0 is the segment table
  size_t capacity_words_ = 0;
  size_t dirty_words_ = 0;  // may be non-zero, cleared before the next build
  size_t size_bytes_ = 0;
};

Status build_message(const VehicleMessage& message, MessageBuffer& out);
Status build_message(const RoadMessage& message, MessageBuffer& out);
Status build_message(const CabinMessage& message, MessageBuffer& out);
Status build_message(const StateMessage& message, MessageBuffer& out);
Status build_message(const MetricsMessage& message, MessageBuffer& out);

// After an error `out` is unspecified. `bytes` that are not 8-byte aligned are copied (receivers
// give aligned ones).
Status read_message(std::span<const std::byte> bytes, VehicleMessage& out);
Status read_message(std::span<const std::byte> bytes, RoadMessage& out);
Status read_message(std::span<const std::byte> bytes, CabinMessage& out);
Status read_message(std::span<const std::byte> bytes, StateMessage& out);
Status read_message(std::span<const std::byte> bytes, MetricsMessage& out);

// Which topic a message belongs to, and its header; for taps and fuzzers.
Result<Topic> read_topic(std::span<const std::byte> bytes, Header& out);

}  // namespace modeld::ipc
