#include "selftest/boot/cache_rules.h"

namespace modeld::selftest {
namespace {

bool holds(CacheCase wanted, const exec::CompileStats& s) {
  if (s.kernels == 0 || s.cold + s.memory_hits + s.disk_hits != s.kernels) return false;
  switch (wanted) {
    case CacheCase::kCold:
      return s.lowered == s.kernels && s.cold == s.kernels;
    case CacheCase::kMemory:
      return s.lowered == 0 && s.memory_hits == s.kernels;
    case CacheCase::kDisk:
      return s.lowered == s.kernels && s.disk_hits == s.kernels;
    case CacheCase::kSwitched:
      // At least one image is new, and none comes from a file that was there before.
      return s.lowered == s.kernels && s.cold > 0 && s.disk_hits == 0;
  }
  return false;
}

const char* wish(CacheCase wanted) {
  switch (wanted) {
    case CacheCase::kCold:
      return "a cold compile of every kernel";
    case CacheCase::kMemory:
      return "every kernel from memory";
    case CacheCase::kDisk:
      return "every kernel lowered and taken from disk";
    case CacheCase::kSwitched:
      return "no kernel of the configuration before";
  }
  return "?";
}

}  // namespace

std::string counters_text(const exec::CompileStats& s) {
  const auto n = [](uint64_t v) { return static_cast<unsigned long long>(v); };
  return strf("%llu kernels: %llu lowered, %llu cold, %llu from memory, %llu from disk",
              n(s.kernels), n(s.lowered), n(s.cold), n(s.memory_hits), n(s.disk_hits));
}

Status check_counters(CacheCase wanted, const exec::CompileStats& stats) {
  if (holds(wanted, stats)) return {};
  return fail(Errc::kMismatch,
              strf("expected %s, saw %s", wish(wanted), counters_text(stats).c_str()));
}

}  // namespace modeld::selftest
