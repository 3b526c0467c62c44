// KernelStorage as bytes a compiled kernel reads and writes, with guard bytes on both sides.
// Threading: plain values.
#pragma once

#include <cstddef>
#include <vector>

#include "selftest/testing/kernel_interp.h"

namespace modeld::testing {

// One element in its storage form, at an address that may be unaligned.
void write_element(const KernelStorage& s, size_t n, std::byte* at);
void read_element(KernelStorage& s, size_t n, const std::byte* at);

// A buffer with guards, its first element `misalign` elements past a 64-byte boundary.
struct GuardedMemory {
  std::vector<std::byte> bytes;
  std::byte* first = nullptr;
  size_t used = 0;  // bytes of the buffer itself

  GuardedMemory(const KernelStorage& s, size_t misalign);
  bool guards_hold() const;
  void read_back(KernelStorage& s) const;
};

}  // namespace modeld::testing
