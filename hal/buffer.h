// Device memory: a handle with cheap views, and the allocator interface that makes it. This is not
// a tensor: a buffer knows its bytes and its address, nothing of shapes or types.
// Contract: addresses are at least 64-byte aligned (views: base plus offset). Memory goes back when
// the last handle or view goes; a submission does not hold it unless Recorder::keep was told to.
// Threading: handles are values (share by copy); allocators may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "hal/base/status.h"
#include "hal/signal.h"

namespace modeld::hal {

enum class Mem : uint32_t {
  kNone = 0,
  kCpu = 1,
  kHost = 2,
  kUncached = 4,
  kNoCachePool = 8,
  kZero = 16,
  kImage = 32
};
constexpr Mem operator|(Mem a, Mem b) {
  return static_cast<Mem>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}
constexpr bool has(Mem set, Mem flag) {
  return (static_cast<uint32_t>(set) & static_cast<uint32_t>(flag)) != 0;
}

struct BufferDesc {
  size_t size_bytes = 0;
  Mem flags = Mem::kNone;
  // At most one of these: memory of the caller, which must outlive the buffer, or a shared fd (a
  // sealed memfd with camera frames, a bundle's weights), which may be closed after the call.
  // fd_offset is page aligned.
  void* external = nullptr;
  int fd = -1;
  uint64_t fd_offset = 0;
  bool read_only = false;  // fd only: map without write permission
};

class Device;

// What a backend implements; handles share it.
class BufferStorage {
 public:
  virtual ~BufferStorage() = default;
  virtual size_t size() const = 0;
  virtual DevAddr addr() const = 0;
  virtual std::byte* cpu() = 0;  // null when the host cannot see it
  virtual uint64_t epoch() const = 0;
  virtual Result<DevAddr> map_to(Device& user) = 0;  // the address another device sees
};

class Buffer {
 public:
  Buffer() = default;
  // shared_ptr: views, recordings and the owner keep one allocation alive.
  explicit Buffer(std::shared_ptr<BufferStorage> storage)
      : storage_(std::move(storage)), size_(storage_ ? storage_->size() : 0) {}

  explicit operator bool() const { return storage_ != nullptr; }
  size_t size() const { return size_; }
  uint64_t epoch() const { return storage_->epoch(); }
  DevAddr addr() const { return storage_->addr() + offset_; }
  Result<DevAddr> addr_on(Device& user) const;
  // Empty when not CPU visible. Writing through it needs an idle device or a barrier in the
  // recording.
  std::span<std::byte> cpu() const;
  // kInvalid when [offset, offset + size) does not lie inside this view.
  Result<Buffer> view(size_t offset, size_t size) const;

 private:
  std::shared_ptr<BufferStorage> storage_;
  size_t offset_ = 0;
  size_t size_ = 0;
};

struct MemStats {
  uint64_t live_bytes = 0, peak_bytes = 0, cached_bytes = 0;
  uint64_t live_buffers = 0;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  // kOutOfMemory after the reuse cache was dropped and the allocation tried again once.
  virtual Result<Buffer> alloc(const BufferDesc& desc) = 0;
  virtual void trim() = 0;  // drops the reuse cache
  virtual MemStats stats() const = 0;
};

}  // namespace modeld::hal
