// What devices whose memory the host sees do alike: uploads and downloads are plain copies, and a
// signal is a slot of the host's own. Threading: as the buffers given.
#pragma once

#include <cstring>
#include <memory>
#include <span>

#include "hal/device.h"

namespace modeld::hal {

inline Status copy_to(const Buffer& to, size_t offset, std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(const Buffer target, to.view(offset, bytes.size()));
  if (!bytes.empty()) std::memcpy(target.cpu().data(), bytes.data(), bytes.size());
  return {};
}

inline Status copy_from(std::span<std::byte> to, const Buffer& from, size_t offset) {
  ASSIGN_OR_RETURN(const Buffer source, from.view(offset, to.size()));
  if (!to.empty()) std::memcpy(to.data(), source.cpu().data(), to.size());
  return {};
}

inline Signal host_signal(uint64_t initial) {
  auto slot = std::make_shared<SignalSlot>();
  slot->value = initial;
  SignalSlot* raw = slot.get();
  return Signal(raw, std::move(slot));
}

inline uint64_t value_of(Word w, std::span<const uint64_t> inputs) {
  return w.is_patched() ? inputs[static_cast<size_t>(w.slot)] : w.imm;
}

}  // namespace modeld::hal
