#include "runtime/exec/counting_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<uint64_t> allocations{0};
}  // namespace

// The sanitizers replace the allocation functions themselves.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MODELD_ALLOCATIONS_TAKEN 1
#endif
#endif

namespace modeld::exec {
uint64_t allocation_count() {
  return allocations.load(std::memory_order_relaxed);
}
bool counts_allocations() {
  const uint64_t before = allocation_count();
  ::operator delete(::operator new(1));  // calls, not a new-expression: those may be optimised away
  return allocation_count() != before;
}
}  // namespace modeld::exec

#ifndef MODELD_ALLOCATIONS_TAKEN

void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size > 0 ? size : 1)) return p;
  std::abort();
}
void* operator new(size_t size, std::align_val_t align) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const auto a = static_cast<size_t>(align);
  if (void* p = std::aligned_alloc(a, (size + a - 1) / a * a)) return p;
  std::abort();
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t, std::align_val_t) noexcept {
  std::free(p);
}
#endif
