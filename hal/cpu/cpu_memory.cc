#include "hal/cpu/cpu_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "hal/base/bytes.h"
#include "hal/base/mapping.h"

namespace modeld::hal {

namespace {

constexpr size_t kAlign = 64;
constexpr size_t kHugeBytes = size_t{2} << 20;
constexpr size_t kMaxBytes = size_t{1} << 46;

bool is_paged(size_t size) {
  return size >= CpuHeap::kPageThreshold;
}
size_t rounded(size_t size) {
  return align_up(size, is_paged(size) ? kPageBytes : kAlign);
}

std::byte* map_pages(size_t size) {
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (size >= kHugeBytes)
    madvise(p, size, MADV_HUGEPAGE);  // a hint: kernels without huge pages refuse it
  return static_cast<std::byte*>(p);
}

class OwnedStorage final : public BufferStorage {
 public:
  OwnedStorage(std::shared_ptr<CpuHeap> heap, std::byte* data, size_t size, uint64_t epoch)
      : heap_(std::move(heap)), data_(data), size_(size), epoch_(epoch) {}
  ~OwnedStorage() override { heap_->give_back(data_, size_); }
  size_t size() const override { return size_; }
  DevAddr addr() const override { return reinterpret_cast<DevAddr>(data_); }
  std::byte* cpu() override { return data_; }
  uint64_t epoch() const override { return epoch_; }
  Result<DevAddr> map_to(Device&) override { return addr(); }

 private:
  std::shared_ptr<CpuHeap> heap_;  // shared: the buffer may outlive its device
  std::byte* data_;
  size_t size_;
  uint64_t epoch_;
};

class ImportedStorage final : public BufferStorage {
 public:
  ImportedStorage(std::byte* data, size_t size, uint64_t epoch)
      : data_(data), size_(size), epoch_(epoch) {}
  ImportedStorage(Mapping mapping, uint64_t epoch)
      : mapping_(std::move(mapping)),
        data_(mapping_.data()),
        size_(mapping_.size()),
        epoch_(epoch) {}
  size_t size() const override { return size_; }
  DevAddr addr() const override { return reinterpret_cast<DevAddr>(data_); }
  std::byte* cpu() override { return data_; }
  uint64_t epoch() const override { return epoch_; }
  Result<DevAddr> map_to(Device&) override { return addr(); }

 private:
  Mapping mapping_;  // empty for a pointer of the caller
  std::byte* data_;
  size_t size_;
  uint64_t epoch_;
};

}  // namespace

std::byte* CpuHeap::take_cached(size_t size) {
  const std::lock_guard lock(mutex_);
  const auto it = cache_.find(size);
  if (it == cache_.end()) return nullptr;
  std::byte* p = it->second;
  cache_.erase(it);
  stats_.cached_bytes -= size;
  return p;
}

void CpuHeap::count(size_t size) {
  const std::lock_guard lock(mutex_);
  stats_.live_bytes += size;
  stats_.live_buffers += 1;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
}

std::byte* CpuHeap::take(size_t size, bool zero) {
  const size_t bytes = rounded(size);
  std::byte* p = is_paged(size) ? take_cached(bytes) : nullptr;
  const bool is_fresh_map = p == nullptr && is_paged(size);
  for (int attempt = 0; p == nullptr && attempt < 2; ++attempt) {
    if (attempt > 0) trim();
    p = is_paged(size) ? map_pages(bytes)
                       : static_cast<std::byte*>(std::aligned_alloc(kAlign, bytes));
  }
  if (p == nullptr) return nullptr;
  if (zero && !is_fresh_map) std::memset(p, 0, bytes);
  count(bytes);
  return p;
}

void CpuHeap::give_back(std::byte* p, size_t size) {
  const size_t bytes = rounded(size);
  bool keep = false;
  {
    const std::lock_guard lock(mutex_);
    stats_.live_bytes -= bytes;
    stats_.live_buffers -= 1;
    keep = is_paged(size) && stats_.cached_bytes + bytes <= kCacheLimitBytes;
    if (keep) {
      cache_.emplace(bytes, p);
      stats_.cached_bytes += bytes;
    }
  }
  if (keep) return;
  if (is_paged(size)) {
    munmap(p, bytes);
  } else {
    std::free(p);  // from aligned_alloc
  }
}

void CpuHeap::trim() {
  std::multimap<size_t, std::byte*> old;
  {
    const std::lock_guard lock(mutex_);
    old.swap(cache_);
    stats_.cached_bytes = 0;
  }
  for (const auto& [size, p] : old) munmap(p, size);
}

MemStats CpuHeap::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

Result<Buffer> CpuAllocator::alloc(const BufferDesc& desc) {
  if (desc.size_bytes == 0) return fail(Errc::kInvalid, "cpu: a buffer of 0 bytes");
  if (desc.external != nullptr && desc.fd >= 0)
    return fail(Errc::kInvalid, "cpu: a buffer from both a pointer and an fd");
  if (desc.external != nullptr)
    return Buffer(std::make_shared<ImportedStorage>(static_cast<std::byte*>(desc.external),
                                                    desc.size_bytes, epoch_));
  if (desc.fd >= 0) {
    const MapMode mode = desc.read_only ? MapMode::kRead : MapMode::kReadWrite;
    ASSIGN_OR_RETURN(Mapping mapping,
                     Mapping::map_fd(desc.fd, desc.fd_offset, desc.size_bytes, mode));
    mapping.populate_resident();
    return Buffer(std::make_shared<ImportedStorage>(std::move(mapping), epoch_));
  }
  std::byte* p = desc.size_bytes > kMaxBytes
                     ? nullptr
                     : heap_->take(desc.size_bytes, has(desc.flags, Mem::kZero));
  if (p == nullptr)
    return fail(Errc::kOutOfMemory,
                strf("cpu: no memory for a buffer of %zu bytes", desc.size_bytes));
  return Buffer(std::make_shared<OwnedStorage>(heap_, p, desc.size_bytes, epoch_));
}

}  // namespace modeld::hal
