// Two-level segregated fit over an address range: the pinned baseline of the memory planner.
// Contract: classes are (bit length, next 5 bits); a request is rounded up to its class granule for
// the search, so any block of that class or above fits, and is then cut at the exact size; a free
// merges with free neighbours; within a class the oldest block wins. Units: bytes (128 bit).
// Threading: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "runtime/schedule/planner.h"

namespace modeld::schedule {

class Tlsf {
 public:
  explicit Tlsf(Bytes capacity, Bytes block = kPlanBlock);
  std::optional<Bytes> alloc(Bytes size);  // nothing: no block is large enough
  void free(Bytes start);                  // start must come from alloc

 private:
  struct Block {
    Bytes size = 0;
    bool is_free = false;
  };
  using Class = std::pair<int, int>;
  static constexpr int kSecondLevelBits = 5;
  static int bit_length(Bytes v);
  static Class class_of(Bytes size);
  void insert(Bytes start, Bytes size);
  void remove(Bytes start, Bytes size);

  Bytes block_;
  std::map<Bytes, Block> blocks_;             // by start, without holes
  std::map<Class, std::deque<Bytes>> lists_;  // free blocks, oldest first; no empty lists
};

}  // namespace modeld::schedule
