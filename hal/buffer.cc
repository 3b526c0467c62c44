#include "hal/buffer.h"

#include "hal/base/bytes.h"

namespace modeld::hal {

Result<DevAddr> Buffer::addr_on(Device& user) const {
  ASSIGN_OR_RETURN(const DevAddr base, storage_->map_to(user));
  return base + offset_;
}

std::span<std::byte> Buffer::cpu() const {
  std::byte* base = storage_ ? storage_->cpu() : nullptr;
  if (base == nullptr) return {};
  return {base + offset_, size_};
}

Result<Buffer> Buffer::view(size_t offset, size_t size) const {
  if (!in_bounds(offset, size, size_))
    return fail(Errc::kInvalid,
                strf("buffer view: range %zu+%zu lies outside %zu bytes", offset, size, size_));
  Buffer out = *this;
  out.offset_ += offset;
  out.size_ = size;
  return out;
}

}  // namespace modeld::hal
