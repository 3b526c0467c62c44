// Host memory as device memory: aligned heap blocks, page mappings with huge pages, imported
// pointers and shared fds. Contract: 64-byte alignment, 4 KiB from 64 KiB on. Freed page mappings
// are kept for reuse up to kCacheLimitBytes. Threading: any thread; one mutex, never held during a
// fault-in or copy.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "hal/buffer.h"

namespace modeld::hal {

// Shared by the allocator and every storage, so that buffers may outlive their device.
class CpuHeap {
 public:
  static constexpr size_t kPageThreshold = size_t{64} << 10;
  static constexpr uint64_t kCacheLimitBytes = uint64_t{256} << 20;

  ~CpuHeap() { trim(); }
  // Null when there is no memory even after the cache was dropped. Sizes from kPageThreshold on are
  // whole pages.
  std::byte* take(size_t size, bool zero);
  void give_back(std::byte* p, size_t size);
  void trim();
  MemStats stats() const;

 private:
  std::byte* take_cached(size_t size);
  void count(size_t size);

  mutable std::mutex mutex_;
  std::multimap<size_t, std::byte*> cache_;
  MemStats stats_;
};

class CpuAllocator final : public Allocator {
 public:
  explicit CpuAllocator(uint64_t epoch) : heap_(std::make_shared<CpuHeap>()), epoch_(epoch) {}
  Result<Buffer> alloc(const BufferDesc& desc) override;
  void trim() override { heap_->trim(); }
  MemStats stats() const override { return heap_->stats(); }

 private:
  std::shared_ptr<CpuHeap> heap_;
  uint64_t epoch_;
};

}  // namespace modeld::hal
