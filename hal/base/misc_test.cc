// Tests of the header-only helpers and of small files: arena, clock, unique_fd, fault, trace,
// status.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "hal/base/arena.h"
#include "hal/base/clock.h"
#include "hal/base/fault.h"
#include "hal/base/json.h"
#include "hal/base/status.h"
#include "hal/base/trace.h"
#include "hal/base/unique_fd.h"

namespace modeld {
namespace {

TEST(Arena, AddressesStayAndAreAligned) {
  Arena arena(128);
  std::vector<int64_t*> all;
  for (int i = 0; i < 1000; ++i) {
    static_cast<void>(arena.copy("xyz"));
    all.push_back(arena.create<int64_t>(i));
  }
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(*all[static_cast<size_t>(i)], i);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all[static_cast<size_t>(i)]) % alignof(int64_t), 0U);
  }
}

TEST(Arena, ObjectsLargerThanABlockFit) {
  Arena arena(64);
  const std::vector<int> big(1000, 7);
  const std::span<int> copy = arena.copy(std::span<const int>(big));
  EXPECT_EQ(copy[999], 7);
  EXPECT_EQ(arena.copy("abc"), "abc");
}

TEST(Clock, DeadlinesCountDownToZero) {
  EXPECT_TRUE(Deadline::in_ms(-1).has_passed());
  EXPECT_EQ(Deadline::in_ms(-1).left_ms(), 0);
  const Deadline later = Deadline::in_ms(1'000'000);
  EXPECT_GT(later.left_ms(), 900'000);
  EXPECT_LE(later.left_ms(), 1'000'000);
  EXPECT_EQ((Deadline{now_ns() + 100}).left_ms() <= 1, true);
}

TEST(Clock, FakeMovesOnlyWhenTold) {
  FakeClock clock(5);
  EXPECT_EQ(clock.now(), 5);
  clock.advance_ms(2);
  EXPECT_EQ(clock.now(), 5 + 2 * kNsPerMs);
}

TEST(UniqueFd, ClosesOnce) {
  const int raw = open("/dev/null", O_RDONLY);
  {
    UniqueFd a(raw);
    UniqueFd b(std::move(a));
    EXPECT_FALSE(
        a.is_open());  // NOLINT(bugprone-use-after-move) the state after a move is what is tested
    EXPECT_EQ(b.get(), raw);
  }
  EXPECT_EQ(fcntl(raw, F_GETFD), -1);
}

TEST(Status, MacrosKeepTheReason) {
  const auto inner = []() -> Result<int> { return fail(Errc::kCorrupt, "bad byte 7"); };
  const auto outer = [&]() -> Status {
    ASSIGN_OR_RETURN([[maybe_unused]] const int v, inner());
    return {};
  };
  EXPECT_EQ(outer().error().what, "bad byte 7");
  EXPECT_EQ(outer().error().code, Errc::kCorrupt);
  EXPECT_EQ(inner().error().what, "bad byte 7");
  EXPECT_EQ(std::move(inner().error()).with("file f").what, "file f: bad byte 7");
}

#ifdef MODELD_FAULTS
TEST(Status, TextOfAFailureIsOneLine) {
  EXPECT_EQ(fail(Errc::kInvalid, "node 'a\nb\x7f'").value().what, "node 'a?b?'");
  EXPECT_EQ(fail_errno(Errc::kIo, "open a\tb", ENOENT).value().what,
            "open a?b: No such file or directory");
  EXPECT_EQ(fail_errno(Errc::kIo, "x", ENOENT).value().sys, ENOENT);
}

TEST(Fault, ListsNamesAndValues) {
  EXPECT_THAT(*fault::parse("a=1,b, c = x "),
              testing::ElementsAre(testing::Pair("a", "1"), testing::Pair("b", ""),
                                   testing::Pair("c", "x")));
  EXPECT_FALSE(fault::parse("=1").ok());
  EXPECT_TRUE(fault::parse("")->empty());
}

TEST(Fault, OnlyNamedSwitchesAreOn) {
  fault::set_for_test("slow_ms=20,drop");
  EXPECT_TRUE(fault::on("drop"));
  EXPECT_FALSE(fault::on("slow"));
  EXPECT_EQ(fault::number("slow_ms", 0), 20);
  EXPECT_EQ(fault::number("drop", 5), 5);
  EXPECT_EQ(*fault::value("slow_ms"), "20");
  fault::set_for_test("");
  EXPECT_FALSE(fault::on("drop"));
}
#endif

TEST(Trace, DumpHoldsZonesOfEveryThread) {
  trace_clear();
  trace_enable(true);
  trace_prepare_thread("main");
  {
    const TraceZone zone("outer", 3);
    trace_instant("tick", 4);
  }
  std::thread([] {
    trace_prepare_thread("other");
    const TraceZone zone("inner");
  }).join();
  trace_enable(false);
  { const TraceZone zone("not recorded"); }
  const std::string text = trace_dump_json();
  const auto json = Json::parse(text);
  ASSERT_TRUE(json.ok()) << json.error().what;
  std::vector<std::string> seen;
  for (const Json& e : json->find("traceEvents")->items())
    seen.push_back(e.find("ph")->string_or("") + " " + e.find("name")->string_or(""));
  EXPECT_THAT(seen, testing::IsSupersetOf({"B outer", "i tick", "E outer", "B inner", "E inner"}));
  EXPECT_EQ(text.find("not recorded"), std::string::npos);
  EXPECT_NE(text.find("\"other\""), std::string::npos);
  trace_clear();
}

TEST(Trace, TheRingKeepsTheNewest) {
  trace_clear();
  trace_enable(true);
  for (int i = 0; i < 20000; ++i) trace_instant("n", i);
  trace_enable(false);
  const Json json = *Json::parse(trace_dump_json());
  int64_t smallest = INT64_MAX, largest = 0;
  for (const Json& e : json.find("traceEvents")->items()) {
    if (e.find("name")->string_or("") != "n") continue;
    const int64_t v = e.find("args")->find("value")->int_or(-1);
    smallest = std::min(smallest, v);
    largest = std::max(largest, v);
  }
  EXPECT_EQ(largest, 19999);
  EXPECT_EQ(smallest, 20000 - 8192);
  trace_clear();
}

TEST(Trace, SpansAndTagsSayWhoseFrame) {
  trace_clear();
  trace_enable(true);
  trace_span("before", 1'000'500, 2'000'000, 7, "road");
  trace_enable(false);
  const Json json = *Json::parse(trace_dump_json("me"));
  const auto& events = json.find("traceEvents")->items();
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.front().find("args")->find("name")->string_or(""), "me");
  const Json& begin = events[events.size() - 2];
  EXPECT_EQ(begin.find("args")->find("of")->string_or(""), "road");
  EXPECT_EQ(begin.find("args")->find("frame")->int_or(0), 7);
  EXPECT_EQ(begin.find("ts")->double_or(0), 1000.5);
  EXPECT_EQ(events.back().find("ts")->double_or(0), 2000.0);
  trace_clear();
}

TEST(Trace, LongNamesAreCutAndOddOnesShown) {
  trace_clear();
  trace_enable(true);
  trace_instant("a_kernel_with_a_name_of_more_than_31_characters");
  trace_instant("a \"b\" \\ \n");
  trace_enable(false);
  const Json json = *Json::parse(trace_dump_json());
  const auto& events = json.find("traceEvents")->items();
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(events[events.size() - 2].find("name")->string_or(""),
            "a_kernel_with_a_name_of_more_th");
  EXPECT_EQ(events.back().find("name")->string_or(""), "a \"b\" \\ ?");
  trace_clear();
}

// Zeroed memory as two processes share it.
std::span<std::byte> shared_memory() {
  void* const at =
      mmap(nullptr, kTraceMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? std::span<std::byte>()
                          : std::span(static_cast<std::byte*>(at), kTraceMemoryBytes);
}

TEST(Trace, AnotherProcessIsShownFromSharedMemory) {
  const std::span<std::byte> memory = shared_memory();
  ASSERT_FALSE(memory.empty());
  trace_use_memory(memory);
  trace_enable(true);
  std::thread([] {
    trace_prepare_thread("far");
    const TraceZone zone("run", 12, "cabin");
  }).join();
  trace_enable(false);
  trace_use_memory({});
  const TraceSource source{4242, "cabin worker", memory};
  const Json json = *Json::parse(trace_dump_json("", {&source, 1}));
  std::vector<std::string> seen;
  for (const Json& e : json.find("traceEvents")->items()) {
    if (e.find("pid")->int_or(0) == 4242)
      seen.push_back(e.find("ph")->string_or("") + " " + e.find("name")->string_or(""));
  }
  EXPECT_THAT(seen, testing::ElementsAre("M process_name", "M thread_name", "B run", "E run"));
  munmap(memory.data(), memory.size());
}

TEST(Trace, ForeignMemoryMayHoldAnything) {
  const std::span<std::byte> memory = shared_memory();
  ASSERT_FALSE(memory.empty());
  constexpr size_t kRing = 64 + 8192 * 64;
  constexpr int kPid = 77;
  uint64_t seed = 1;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i + 8 <= memory.size(); i += 8) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      std::memcpy(memory.data() + i, &seed, 8);
    }
    // The second time with counts and tickets that fit, so that the bytes are believed.
    const auto put = [&](size_t at, uint64_t word) { std::memcpy(memory.data() + at, &word, 8); };
    for (size_t ring = 0; round == 1 && ring < 2; ++ring) {
      put(0, 2);
      put(64 + ring * kRing + 32, 8192);
      for (size_t i = 0; i < 8192; ++i) put(128 + ring * kRing + i * 64, (i + 1) * 4 + i % 4);
    }
    const TraceSource source{kPid, "any", memory};
    const auto json = Json::parse(trace_dump_json("", {&source, 1}));
    ASSERT_TRUE(json.ok()) << json.error().what;
    const auto& events = json->find("traceEvents")->items();
    const auto foreign = std::count_if(events.begin(), events.end(), [](const Json& e) {
      return e.find("pid")->int_or(0) == kPid;
    });
    if (round == 1) {
      EXPECT_EQ(foreign, 2 * (8192 * 3 / 4) + 3);
    }
  }
  munmap(memory.data(), memory.size());
}

TEST(Trace, DumpingWhileOthersWriteIsSafe) {
  trace_clear();
  trace_enable(true);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) {
      const TraceZone zone("w");
    }
  });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Json::parse(trace_dump_json()).ok());
  stop = true;
  writer.join();
  trace_enable(false);
  trace_clear();
}

}  // namespace
}  // namespace modeld
