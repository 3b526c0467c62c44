// Bump allocator: many small objects with one lifetime and stable addresses; everything goes at
// once with the arena. This is not a container: destructors are not run, so only trivially
// destructible types fit. Contract: addresses never move. Allocation fails only by the process
// running out of memory. Threading: one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace modeld {

class Arena {
 public:
  explicit Arena(size_t block_bytes = size_t{64} << 10) : block_bytes_(block_bytes) {}
  Arena(Arena&&) noexcept = default;
  Arena& operator=(Arena&&) noexcept = default;

  // `align` is a power of two, at most alignof(max_align_t).
  void* allocate(size_t size, size_t align = alignof(std::max_align_t)) {
    size_t at = (used_ + align - 1) & ~(align - 1);
    if (blocks_.empty() || at + size > capacity_) {
      capacity_ = std::max(block_bytes_, size);
      blocks_.push_back(std::make_unique<std::byte[]>(capacity_));
      at = 0;
    }
    used_ = at + size;
    total_bytes_ += size;
    return blocks_.back().get() + at;
  }

  template <class T, class... Args>
  T* create(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<T>, "the arena runs no destructors");
    return new (allocate(sizeof(T), alignof(T))) T{std::forward<Args>(args)...};
  }

  template <class T>
  std::span<T> copy(std::span<const T> from) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (from.empty()) return {};
    T* to = static_cast<T*>(allocate(from.size_bytes(), alignof(T)));
    std::memcpy(static_cast<void*>(to), from.data(), from.size_bytes());
    return {to, from.size()};
  }
  std::string_view copy(std::string_view from) {
    const std::span<char> to = copy(std::span<const char>(from.data(), from.size()));
    return {to.data(), to.size()};
  }

  size_t total_bytes() const { return total_bytes_; }

 private:
  size_t block_bytes_;
  size_t capacity_ = 0;  // of the last block
  size_t used_ = 0;      // of the last block
  size_t total_bytes_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

}  // namespace modeld
