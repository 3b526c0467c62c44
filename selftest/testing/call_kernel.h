// Calls generated code from a test. It carries no type in front of its entry, where clang's
// function check would read one, so the check is off here and only here. Threading: as the kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hal/program.h"

namespace modeld::testing {

#ifdef __clang__
__attribute__((no_sanitize("function")))
#endif
inline void
call_kernel(const void* entry, const uint64_t* words, uint32_t core) {
  reinterpret_cast<hal::HostKernel>(const_cast<void*>(entry))(words, core);
}

}  // namespace modeld::testing
