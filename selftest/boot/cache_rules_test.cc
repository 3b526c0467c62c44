// Counters of one case are never taken for another: each rule refuses what the others accept.
#include "selftest/boot/cache_rules.h"

#include <gtest/gtest.h>

namespace modeld::selftest {
namespace {

exec::CompileStats stats(uint64_t lowered, uint64_t cold, uint64_t memory, uint64_t disk) {
  exec::CompileStats out;
  out.kernels = 10;
  out.lowered = lowered;
  out.cold = cold;
  out.memory_hits = memory;
  out.disk_hits = disk;
  return out;
}

constexpr CacheCase kCases[] = {CacheCase::kCold, CacheCase::kMemory, CacheCase::kDisk,
                                CacheCase::kSwitched};

TEST(CacheRules, TellTheCasesApart) {
  const exec::CompileStats seen[] = {stats(10, 10, 0, 0), stats(0, 0, 10, 0), stats(10, 0, 0, 10),
                                     stats(10, 7, 3, 0)};
  for (size_t wanted = 0; wanted < std::size(kCases); ++wanted) {
    for (size_t was = 0; was < std::size(kCases); ++was) {
      const bool is_cold_switch =
          kCases[wanted] == CacheCase::kSwitched && kCases[was] == CacheCase::kCold;
      EXPECT_EQ(check_counters(kCases[wanted], seen[was]).ok(), wanted == was || is_cold_switch)
          << wanted << " from " << counters_text(seen[was]);
    }
  }
}

TEST(CacheRules, RefuseCountersThatDoNotAddUp) {
  for (const CacheCase wanted : kCases) {
    EXPECT_FALSE(check_counters(wanted, stats(10, 5, 0, 0)).ok()) << "kernels without an origin";
    EXPECT_FALSE(check_counters(wanted, exec::CompileStats()).ok()) << "nothing was compiled";
  }
  EXPECT_FALSE(check_counters(CacheCase::kCold, stats(10, 9, 1, 0)).ok()) << "one was kept";
  EXPECT_FALSE(check_counters(CacheCase::kMemory, stats(1, 0, 10, 0)).ok()) << "one was lowered";
  EXPECT_FALSE(check_counters(CacheCase::kDisk, stats(10, 1, 0, 9)).ok()) << "one was compiled";
  EXPECT_FALSE(check_counters(CacheCase::kSwitched, stats(9, 9, 1, 0)).ok()) << "one was shared";
}

TEST(CacheRules, SayWhatWasWantedAndSeen) {
  const Status s = check_counters(CacheCase::kDisk, stats(10, 1, 0, 9));
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().what,
            "expected every kernel lowered and taken from disk, saw 10 kernels: 10 lowered, 1 "
            "cold, 0 from memory, 9 from disk");
}

}  // namespace
}  // namespace modeld::selftest
