// CHECK is for bugs of ours only, never for data from outside: prints the place and aborts, in
// every build.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace modeld {
[[noreturn]] inline void check_failed(const char* file, int line, const char* text) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, text);
  std::abort();
}
}  // namespace modeld

#define CHECK(cond)                                                 \
  do {                                                              \
    if (!(cond)) ::modeld::check_failed(__FILE__, __LINE__, #cond); \
  } while (false)

// DCHECK is CHECK in debug builds only; its argument is always compiled, so it cannot rot.
#ifdef NDEBUG
#define DCHECK(cond) \
  do {               \
    if (false) {     \
      CHECK(cond);   \
    }                \
  } while (false)
#else
#define DCHECK(cond) CHECK(cond)
#endif
