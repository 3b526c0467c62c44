// Constant data of a graph: which bytes belong in which buffer slot.
// This is not device memory: the bytes are read-only and shared, and somebody else copies them to a
// device. Contract: add() gives equal (bytes, dtype) the same slot, so equal constants become one
// buffer. Slots come from Graph::fresh() and are therefore unique among all buffers of that Graph.
// Units: bytes. Threading: one thread, like the Graph it belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "hal/base/hash.h"

#include "runtime/ir/graph.h"

namespace modeld::tensor {

struct Weight {
  ir::DType dtype = ir::DType::kF32;
  std::shared_ptr<const std::vector<std::byte>> bytes;
  Hash128 hash;  // of the bytes

  int64_t size_bytes() const { return static_cast<int64_t>(bytes->size()); }
};

class WeightStore {
 public:
  // Copies the bytes unless equal ones are there already.
  int64_t add(ir::Graph& g, ir::DType dtype, std::span<const std::byte> bytes);

  const Weight* find(int64_t slot) const;  // nullptr: no such slot
  // By slot, increasing: the order in which they were first added.
  const std::map<int64_t, Weight>& all() const { return by_slot_; }
  size_t count() const { return by_slot_.size(); }
  int64_t total_bytes() const { return total_bytes_; }

 private:
  std::map<int64_t, Weight> by_slot_;
  std::map<std::pair<Hash128, ir::DType>, int64_t> by_content_;
  int64_t total_bytes_ = 0;
};

}  // namespace modeld::tensor
