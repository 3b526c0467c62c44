#include "runtime/exec/dependency_tracker.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>

namespace modeld::exec {
namespace {

using Calls = std::vector<uint32_t>;

// One piece of memory of 16 bytes, accessed by calls 0, 1, 2 ...
class Memory16 {
 public:
  Calls read(uint64_t begin, uint64_t end) {
    const ByteRange r{7, begin, end};
    return tracker_.add(next_++, std::span(&r, 1), {});
  }
  Calls write(uint64_t begin, uint64_t end) {
    const ByteRange w{7, begin, end};
    return tracker_.add(next_++, {}, std::span(&w, 1));
  }

 private:
  DependencyTracker tracker_;
  uint32_t next_ = 0;
};

TEST(DependencyTracker, ReadersWaitForTheWriterAndNotForEachOther) {
  Memory16 m;
  EXPECT_EQ(m.write(0, 16), Calls{});
  EXPECT_EQ(m.read(0, 16), Calls{0});
  EXPECT_EQ(m.read(4, 8), Calls{0});
}

TEST(DependencyTracker, AWriteWaitsForReadersAndWritersOfItsBytes) {
  Memory16 m;
  m.write(0, 8);
  m.write(8, 16);
  m.read(0, 4);
  m.read(12, 16);
  EXPECT_EQ(m.write(2, 10), (Calls{0, 1, 2})) << "the second reader's bytes are not touched";
}

TEST(DependencyTracker, WriteWholeWriteLowHalfReadHighHalfStillWaitsForTheFirst) {
  Memory16 m;
  m.write(0, 16);
  m.write(0, 8);
  EXPECT_EQ(m.read(8, 16), Calls{0});
  EXPECT_EQ(m.read(0, 8), Calls{1});
  EXPECT_EQ(m.read(4, 12), (Calls{0, 1}));
}

TEST(DependencyTracker, AMiddleWriteKeepsBothOuterPartsOfTheWriter) {
  Memory16 m;
  m.write(0, 16);
  m.write(4, 12);
  EXPECT_EQ(m.read(0, 4), Calls{0});
  EXPECT_EQ(m.read(12, 16), Calls{0});
  EXPECT_EQ(m.read(5, 6), Calls{1});
}

TEST(DependencyTracker, AMiddleWriteKeepsBothOuterPartsOfTheReader) {
  Memory16 m;
  m.read(0, 16);
  m.write(4, 12);
  EXPECT_EQ(m.write(0, 4), Calls{0});
  EXPECT_EQ(m.write(12, 16), Calls{0});
  EXPECT_EQ(m.write(6, 7), Calls{1}) << "the reader is done with these bytes: call 1 waited for it";
}

TEST(DependencyTracker, NeighboursAndOtherMemoryDoNotMeet) {
  Memory16 m;
  m.write(0, 8);
  EXPECT_EQ(m.read(8, 16), Calls{});
  EXPECT_EQ(m.write(4, 4), Calls{}) << "an empty range lies inside of nothing";
  DependencyTracker t;
  const ByteRange a{1, 0, 8}, b{2, 0, 8};
  t.add(0, {}, std::span(&a, 1));
  EXPECT_EQ(t.add(1, std::span(&b, 1), {}), Calls{});
}

TEST(DependencyTracker, ACallInPlaceDoesNotWaitForItselfAndIsTheWriterAfterwards) {
  DependencyTracker t;
  const ByteRange all{1, 0, 16}, part{1, 4, 8};
  EXPECT_EQ(t.add(0, std::span(&all, 1), std::span(&all, 1)), Calls{});
  EXPECT_EQ(t.add(1, std::span(&part, 1), std::span(&all, 1)), Calls{0});
  EXPECT_EQ(t.add(2, std::span(&all, 1), {}), Calls{1});
}

// What every byte remembers, written down directly.
struct ByteModel {
  struct Byte {
    int writer = -1;
    std::set<uint32_t> readers;
  };
  std::array<std::array<Byte, 24>, 2> bytes;

  Calls add(uint32_t call, std::span<const ByteRange> reads, std::span<const ByteRange> writes) {
    std::set<uint32_t> deps;
    const auto each = [this](std::span<const ByteRange> ranges, auto f) {
      for (const ByteRange& r : ranges)
        for (uint64_t i = r.begin; i < r.end; ++i) f(bytes[r.base][i]);
    };
    const auto wait_writer = [&](const Byte& b) {
      if (b.writer >= 0) deps.insert(static_cast<uint32_t>(b.writer));
    };
    each(reads, wait_writer);
    each(writes, wait_writer);
    each(writes, [&](const Byte& b) { deps.insert(b.readers.begin(), b.readers.end()); });
    each(reads, [&](Byte& b) { b.readers.insert(call); });
    each(writes, [&](Byte& b) {
      b.writer = static_cast<int>(call);
      b.readers.clear();
    });
    return {deps.begin(), deps.end()};
  }
};

TEST(DependencyTracker, AgreesWithAByteByByteModelOnRandomAccesses) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    DependencyTracker tracker;
    ByteModel model;
    for (uint32_t call = 0; call < 40; ++call) {
      std::vector<ByteRange> reads, writes;
      for (std::vector<ByteRange>* list : {&reads, &writes}) {
        const uint32_t n = below(3);
        for (uint32_t i = 0; i < n; ++i) {
          const uint32_t begin = below(24);
          list->push_back({below(2), begin, begin + below(25 - begin)});
        }
      }
      ASSERT_EQ(tracker.add(call, reads, writes), model.add(call, reads, writes))
          << "seed " << seed << ", call " << call;
    }
  }
}

}  // namespace
}  // namespace modeld::exec
