// The buffers of one camera stream on the server's side: sealed memfds (SHRINK|GROW|SEAL), mapped
// writable once, and who holds which. A slot is never handed out for writing while any client holds
// it. Threading: one thread. acquire, hold and release do not allocate.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hal/base/mapping.h"
#include "hal/base/status.h"
#include "hal/base/unique_fd.h"

#include "ipc/frame.h"

namespace modeld::ipc {

class FramePool final {
 public:
  static Result<FramePool> create(const StreamInfo& info);

  const StreamInfo& info() const { return info_; }
  int fd(uint32_t slot) const { return slots_[slot].fd.get(); }
  std::span<uint8_t> pixels(uint32_t slot) {
    return {reinterpret_cast<uint8_t*>(slots_[slot].mapping.data()), info_.geometry.size};
  }

  // A slot nobody holds (the lowest: a small working set), or nothing.
  std::optional<uint32_t> acquire() const;
  void hold(uint32_t slot);
  void release(uint32_t slot);
  uint32_t holders(uint32_t slot) const { return slots_[slot].holders; }

 private:
  struct Slot {
    UniqueFd fd;
    Mapping mapping;
    uint32_t holders = 0;
  };
  FramePool() = default;
  StreamInfo info_;
  std::vector<Slot> slots_;
};

}  // namespace modeld::ipc
