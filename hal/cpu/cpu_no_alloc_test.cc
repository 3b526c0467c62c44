// submit + wait on a warm recording must not allocate, on any thread. Every way to the heap is
// counted: the operators are replaced here, malloc and friends by the linker (-Wl,--wrap).
#include <stdlib.h>

#include <atomic>
#include <new>

#include "hal/cpu/cpu_test_util.h"

namespace {
std::atomic<long> g_allocations{0};
}

extern "C" {
void* __real_malloc(size_t);
void* __real_calloc(size_t, size_t);
void* __real_realloc(void*, size_t);
void* __real_aligned_alloc(size_t, size_t);
void* __wrap_malloc(size_t n) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __real_malloc(n);
}
void* __wrap_calloc(size_t n, size_t m) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __real_calloc(n, m);
}
void* __wrap_realloc(void* p, size_t n) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __real_realloc(p, n);
}
void* __wrap_aligned_alloc(size_t a, size_t n) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __real_aligned_alloc(a, n);
}
}

void* operator new(size_t n) {
  return malloc(n == 0 ? 1 : n);
}
void* operator new[](size_t n) {
  return malloc(n == 0 ? 1 : n);
}
void* operator new(size_t n, std::align_val_t a) {
  const auto align = static_cast<size_t>(a);
  return aligned_alloc(align, (n + align - 1) / align * align);
}
void operator delete(void* p) noexcept {
  free(p);
}
void operator delete[](void* p) noexcept {
  free(p);
}
void operator delete(void* p, size_t) noexcept {
  free(p);
}
void operator delete[](void* p, size_t) noexcept {
  free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  free(p);
}
void operator delete(void* p, size_t, std::align_val_t) noexcept {
  free(p);
}

namespace modeld::hal {
namespace {

void add_one(const uint64_t* w, uint32_t core) {
  reinterpret_cast<int*>(w[0])[core] += 1;
}

TEST(CpuNoAlloc, TheCounterCounts) {
  const long before = g_allocations;
  int* p = new int(3);
  asm volatile("" : : "r"(p) : "memory");  // or the pair is optimised away
  delete p;
  EXPECT_EQ(g_allocations - before, 1);
}

TEST(CpuNoAlloc, SubmitAndWaitAllocateNothing) {
  const auto device = open_cpu(2);
  const Buffer a = zeroed(*device, 64), b = zeroed(*device, 64);
  const Signal signal = *device->make_signal();
  const auto program = host_program(*device, add_one, 1);
  const Word args[] = {Word::input(0)};
  auto r = device->record(QueueKind::kCompute, "run");
  for (int k = 0; k < 20; ++k) r->launch(program, args, ranges(k % 3 == 0 ? 1 : 2));
  r->copy(Word::of(a), Word::of(b), Word::value(0)).signal(signal, Word::input(1));
  const auto bound = bind(std::move(r));
  const uint64_t first[] = {a.addr(), 1};
  ASSERT_TRUE(device->wait(*bound->submit(first), soon()).ok());
  const long before = g_allocations;
  bool ok = true;
  for (uint64_t i = 2; i < 200; ++i) {
    const uint64_t inputs[] = {i % 2 == 0 ? a.addr() : b.addr(), i};
    const auto point = bound->submit(inputs);
    ok = ok && point.ok() && device->wait(*point, soon()).ok();
  }
  const long after = g_allocations;
  EXPECT_TRUE(ok);
  EXPECT_EQ(after - before, 0);
  EXPECT_EQ(cpu_ptr<int>(a)[0], 100 * 20);
  EXPECT_EQ(cpu_ptr<int>(b)[0], 99 * 20);
}

}  // namespace
}  // namespace modeld::hal
