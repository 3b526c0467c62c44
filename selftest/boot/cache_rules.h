// How the cases of the compiler's caches differ in the counters of a compile. Contract: no counters
// satisfy two cases, but for a switch that shares no image with the configuration before: it is a
// cold compile. Threading: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "hal/base/status.h"

#include "runtime/exec/plan.h"

namespace modeld::selftest {

enum class CacheCase : uint8_t {
  kCold,      // every kernel lowered and compiled
  kMemory,    // none lowered, none compiled: to_program_cache had them all
  kDisk,      // every kernel lowered, none compiled
  kSwitched,  // every kernel lowered again, none from disk; images may coincide with another's
};

// kMismatch with the counters.
Status check_counters(CacheCase wanted, const exec::CompileStats& stats);
std::string counters_text(const exec::CompileStats& stats);

}  // namespace modeld::selftest
