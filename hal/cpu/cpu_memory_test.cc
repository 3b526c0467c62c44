#include "hal/cpu/cpu_memory.h"

#include <cstring>

#include "hal/base/mapping.h"

namespace modeld::hal {
namespace {

TEST(CpuMemory, AddressesAreAligned) {
  CpuAllocator allocator(1);
  for (const size_t size : {1U, 63U, 64U, 65U, 65535U}) {
    EXPECT_EQ(allocator.alloc({.size_bytes = size})->addr() % 64, 0U);
  }
  EXPECT_EQ(allocator.alloc({.size_bytes = 65536})->addr() % 4096, 0U);
  EXPECT_EQ(allocator.alloc({.size_bytes = 5 << 20})->addr() % 4096, 0U);
}

TEST(CpuMemory, ZeroIsZeroAlsoFromTheReuseCache) {
  CpuAllocator allocator(1);
  for (const size_t size : {size_t{100}, size_t{100'000}}) {
    for (int round = 0; round < 2; ++round) {
      const Buffer b = *allocator.alloc({.size_bytes = size, .flags = Mem::kZero});
      for (const std::byte v : b.cpu()) ASSERT_EQ(v, std::byte{0});
      std::memset(b.cpu().data(), 0xff, b.size());
    }
  }
}

TEST(CpuMemory, FreedPagesAreReusedUntilTrim) {
  CpuAllocator allocator(1);
  const DevAddr first = allocator.alloc({.size_bytes = 100'000})->addr();
  EXPECT_GT(allocator.stats().cached_bytes, 0U);
  EXPECT_EQ(allocator.alloc({.size_bytes = 100'000})->addr(), first);
  allocator.trim();
  EXPECT_EQ(allocator.stats().cached_bytes, 0U);
  EXPECT_EQ(allocator.stats().live_bytes, 0U);
  EXPECT_GE(allocator.stats().peak_bytes, 100'000U);
}

TEST(CpuMemory, ViewsShareAndAreBounded) {
  CpuAllocator allocator(1);
  const Buffer base = *allocator.alloc({.size_bytes = 256, .flags = Mem::kZero});
  const Buffer view = *base.view(64, 128);
  EXPECT_EQ(view.addr(), base.addr() + 64);
  EXPECT_EQ(view.size(), 128U);
  EXPECT_EQ(view.view(32, 8)->addr(), base.addr() + 96);
  view.cpu()[0] = std::byte{5};
  EXPECT_EQ(base.cpu()[64], std::byte{5});
  EXPECT_EQ(base.view(200, 57).error().code, Errc::kInvalid);
  EXPECT_EQ(view.view(0, 129).error().code, Errc::kInvalid);
  EXPECT_EQ(base.view(SIZE_MAX, 2).error().code, Errc::kInvalid);
}

TEST(CpuMemory, AViewKeepsTheMemory) {
  CpuAllocator allocator(1);
  Buffer view;
  {
    const Buffer base = *allocator.alloc({.size_bytes = 100'000});
    view = *base.view(0, 10);
  }
  EXPECT_EQ(allocator.stats().live_buffers, 1U);
  view = {};
  EXPECT_EQ(allocator.stats().live_buffers, 0U);
}

TEST(CpuMemory, BuffersOutliveTheAllocator) {
  Buffer b;
  {
    CpuAllocator allocator(1);
    b = *allocator.alloc({.size_bytes = 100'000, .flags = Mem::kZero});
  }
  b.cpu()[99'999] = std::byte{1};
  EXPECT_EQ(b.cpu()[0], std::byte{0});
}

TEST(CpuMemory, ExternalMemoryIsUsedInPlace) {
  CpuAllocator allocator(1);
  std::vector<int> mine(16, 3);
  const Buffer b = *allocator.alloc({.size_bytes = 64, .external = mine.data()});
  EXPECT_EQ(b.addr(), reinterpret_cast<DevAddr>(mine.data()));
  EXPECT_EQ(allocator.stats().live_bytes, 0U);
}

TEST(CpuMemory, SharedFdsAreMapped) {
  CpuAllocator allocator(1);
  UniqueFd fd = std::move(*create_memfd("frames", 3 * 4096));
  ASSERT_TRUE(seal_size(fd.get()).ok());
  const Mapping writer = *Mapping::map_fd(fd.get(), 0, 3 * 4096, MapMode::kReadWrite);
  const Buffer b =
      *allocator.alloc({.size_bytes = 5000, .fd = fd.get(), .fd_offset = 4096, .read_only = true});
  EXPECT_EQ(allocator.alloc({.size_bytes = 5000, .fd = fd.get(), .fd_offset = 8192}).error().code,
            Errc::kCorrupt);
  EXPECT_EQ(allocator.alloc({.size_bytes = 5000, .fd = fd.get(), .fd_offset = 100}).error().code,
            Errc::kInvalid);
  fd.reset();
  writer.writable()[4096] = std::byte{42};
  EXPECT_EQ(b.cpu()[0], std::byte{42});
}

TEST(CpuMemory, ImpossibleSizesAreErrors) {
  CpuAllocator allocator(1);
  EXPECT_EQ(allocator.alloc({}).error().code, Errc::kInvalid);
  EXPECT_EQ(allocator.alloc({.size_bytes = SIZE_MAX}).error().code, Errc::kOutOfMemory);
  EXPECT_EQ(allocator.alloc({.size_bytes = size_t{1} << 46}).error().code, Errc::kOutOfMemory);
  int x = 0;
  EXPECT_EQ(allocator.alloc({.size_bytes = 4, .external = &x, .fd = 0}).error().code,
            Errc::kInvalid);
}

}  // namespace
}  // namespace modeld::hal
