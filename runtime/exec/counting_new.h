// Test helper: operator new of the whole program counts its calls (counting_new.cc replaces it).
// Threading: any.
#pragma once

#include <cstdint>

namespace modeld::exec {

uint64_t allocation_count();  // since the program began
bool counts_allocations();    // false in sanitizer builds

}  // namespace modeld::exec
