// Fault switches: MODELD_FAULT="name=value,name2" makes one thing of the world go wrong (a return
// code, a delay, bytes, a signal). They exist only in builds with -Dfaults=true; without it the
// names vanish from the binary. Contract: a switch may never set a state, reason or deadline.
// Parsed once per process, at first use. Threading: any thread; no allocation after the first call.
// set_for_test is for single-threaded test set-up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hal/base/status.h"

namespace modeld::fault {

#ifdef MODELD_FAULTS
constexpr bool kBuilt = true;
using List = std::vector<std::pair<std::string, std::string>>;
// "a=1,b" -> {{a,1},{b,""}}; kInvalid names the part without a name.
Result<List> parse(std::string_view text);
bool on(std::string_view name);
// The text after '=', "" for a bare name; nothing when the switch is off.
std::optional<std::string_view> value(std::string_view name);
// The value as a whole number, or `fallback` when the switch is off or bare.
int64_t number(std::string_view name, int64_t fallback);
void set_for_test(std::string_view text);
#else
constexpr bool kBuilt = false;
constexpr bool on(std::string_view) {
  return false;
}
constexpr std::optional<std::string_view> value(std::string_view) {
  return std::nullopt;
}
constexpr int64_t number(std::string_view, int64_t fallback) {
  return fallback;
}
#endif

}  // namespace modeld::fault
