// Included before everything else where clang compiles Cap'n Proto 0.9 (see
// ipc/schema/meson.build). Its headers compare `const char*` with strings and count on C++20's
// reversed operators; since clang 17 (rule P2468) those are not considered for a class that
// declares operator!= as well. g++ 12 does not know that rule. Nothing else belongs here.
// Threading: none.
#pragma once

#include <kj/string.h>

#if defined(__clang__) && __cpp_impl_three_way_comparison
namespace kj {
inline bool operator==(const char* a, const StringPtr& b) {
  return b.operator==(StringPtr(a));
}
inline bool operator!=(const char* a, const StringPtr& b) {
  return !b.operator==(StringPtr(a));
}
}  // namespace kj
#endif
