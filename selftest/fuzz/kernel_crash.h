// Generated code that dies takes the program with it: the last words say whose kernel it was.
// Threading: note_kernel() is per thread; the handler makes async-signal-safe calls only.
#pragma once

#include <cstdint>

namespace modeld::fuzz {

void catch_kernel_crashes(uint64_t seed);
// What this thread works on from now on.
void note_kernel(uint64_t number);

}  // namespace modeld::fuzz
