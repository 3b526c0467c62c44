// DependencyTracker: which earlier calls a call must wait for, by the bytes it touches. It knows no
// devices and no order but the one in which calls are added. Contract: a read waits for every
// writer whose bytes it sees; a write waits for every writer and reader whose bytes it replaces,
// and takes their place: what is left of them on both sides stays. A call never waits for itself.
// Units: bytes; `base` names one piece of memory, pieces never overlap. Threading: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace modeld::exec {

struct ByteRange {
  uint64_t base = 0;
  uint64_t begin = 0, end = 0;  // [begin, end); empty ranges touch nothing
};

class DependencyTracker {
 public:
  // The calls that `call` must wait for, increasing, each once. `call` is larger than all before.
  std::vector<uint32_t> add(uint32_t call,
                            std::span<const ByteRange> reads,
                            std::span<const ByteRange> writes);

 private:
  struct Access {
    uint64_t begin, end;
    uint32_t call;
  };
  struct Memory {
    std::vector<Access> writers;  // disjoint: the last writer of each byte
    std::vector<Access> readers;  // since the last write of each byte
  };

  static void collect(const std::vector<Access>& from,
                      const ByteRange& range,
                      std::vector<uint32_t>& out);
  static void trim(std::vector<Access>& list, const ByteRange& range);

  std::map<uint64_t, Memory> memories_;
};

}  // namespace modeld::exec
