#include "daemon/steady_heap.h"

#include <malloc.h>

#include <cstdlib>
#include <cstring>

namespace modeld::daemon {

void use_one_heap() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, 64 * 1024 * 1024);
  mallopt(M_MMAP_THRESHOLD, 4 * 1024 * 1024);  // large blocks come from it too
}

void reserve_heap() {
  void* reserve = std::malloc(kHeapReserveBytes);
  if (reserve == nullptr) return;
  std::memset(reserve, 1, kHeapReserveBytes);
  asm volatile("" : : "r"(reserve) : "memory");  // nobody may drop the pair as unused
  std::free(reserve);
}

}  // namespace modeld::daemon
