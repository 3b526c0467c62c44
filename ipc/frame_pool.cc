#include "ipc/frame_pool.h"

#include <cstring>

#include "hal/base/check.h"

namespace modeld::ipc {
namespace {

constexpr uint32_t kWarmSlots = 4;
constexpr int kBlack = 16;  // video black: never 0, which the fault variants react to

}  // namespace

Result<FramePool> FramePool::create(const StreamInfo& info) {
  FramePool pool;
  pool.info_ = info;
  pool.slots_.resize(info.slots);
  for (uint32_t i = 0; i < info.slots; ++i) {
    Slot& slot = pool.slots_[i];
    ASSIGN_OR_RETURN(slot.fd, create_memfd(strf("camera-%s-%u", stream_name(info.stream), i),
                                           info.geometry.size));
    RETURN_IF_ERROR(seal_size(slot.fd.get()));
    ASSIGN_OR_RETURN(slot.mapping,
                     Mapping::map_fd(slot.fd.get(), 0, info.geometry.size, MapMode::kReadWrite));
    // The slots of normal operation have their memory before the first frame; the rest waits until
    // clients are slow.
    if (i < kWarmSlots) std::memset(slot.mapping.data(), kBlack, info.geometry.size);
  }
  return pool;
}

std::optional<uint32_t> FramePool::acquire() const {
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].holders == 0) return i;
  }
  return std::nullopt;
}

void FramePool::hold(uint32_t slot) {
  ++slots_[slot].holders;
}

void FramePool::release(uint32_t slot) {
  CHECK(slots_[slot].holders > 0);
  --slots_[slot].holders;
}

}  // namespace modeld::ipc
