// Counts every way to memory of the whole process: malloc, calloc, realloc, aligned_alloc and mmap
// of this program and of every library it loads (the dynamic linker prefers the executable's
// symbols). operator new ends here as well. Linked into modeld_probe only.
#include "selftest/e2e/alloc_probe.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "hal/base/env.h"

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace modeld::e2e {
namespace {

struct Range {
  uintptr_t begin = 0, end = 0;
};

AllocPage* page = nullptr;
Range zmq[8];
int zmq_count = 0;
thread_local bool inside = false;  // backtrace itself must not count

bool is_in_zmq(void* const* frames, int n) {
  for (int i = 0; i < n; ++i) {
    const auto at = reinterpret_cast<uintptr_t>(frames[i]);
    for (int z = 0; z < zmq_count; ++z)
      if (at >= zmq[z].begin && at < zmq[z].end) return true;
  }
  return false;
}

void count(const char* name) {
  if (page == nullptr || inside) return;
  if (page->armed.load(std::memory_order_relaxed) == 0) {
    page->before.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  inside = true;
  void* frames[40];
  const int n = backtrace(frames, 40);
  if (is_in_zmq(frames, n)) {
    page->in_zmq.fetch_add(1, std::memory_order_relaxed);
  } else {
    page->ours.fetch_add(1, std::memory_order_relaxed);
    if (page->sampled.exchange(1) == 0) {
      strncpy(page->name, name, sizeof(page->name) - 1);
      for (int i = 0; i < n - 2 && i < kProbeFrames; ++i)
        page->sample[i] = reinterpret_cast<uint64_t>(frames[i + 2]);
    }
  }
  inside = false;
}

// Where libzmq and the program itself lie.
void read_maps() {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return;
  char line[1024];
  bool is_first = true;
  while (std::fgets(line, sizeof(line), maps) != nullptr) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
    if (is_first) page->text_start = begin;
    is_first = false;
    if (std::strstr(line, "libzmq") != nullptr && zmq_count < 8) zmq[zmq_count++] = {begin, end};
  }
  std::fclose(maps);
}

__attribute__((constructor)) void open_page() {
  const auto dir = env_value("MODELD_RUNTIME_DIR");
  if (!dir) return;
  const std::string path = alloc_page_path(*dir, getpid());
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(AllocPage)) != 0) return;
  void* const at = mmap(nullptr, sizeof(AllocPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at == MAP_FAILED) return;
  void* frames[4];
  backtrace(frames, 4);  // loads the unwinder now, not in the steady state
  page = static_cast<AllocPage*>(at);
  read_maps();
}

}  // namespace
}  // namespace modeld::e2e

extern "C" {

void* malloc(size_t size) {
  modeld::e2e::count("malloc");
  return __libc_malloc(size);
}
void* calloc(size_t n, size_t size) {
  modeld::e2e::count("calloc");
  return __libc_calloc(n, size);
}
void* realloc(void* p, size_t size) {
  modeld::e2e::count("realloc");
  return __libc_realloc(p, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  modeld::e2e::count("aligned_alloc");
  return __libc_memalign(alignment, size);
}
void* memalign(size_t alignment, size_t size) {
  modeld::e2e::count("memalign");
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  modeld::e2e::count("posix_memalign");
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  modeld::e2e::count("mmap");
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, size, protection, flags, fd, offset));
}

}  // extern "C"
