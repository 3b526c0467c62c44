// Movement ops as functions on indices: what index into a movement op's source gives the element at
// an index of its result. Contract: indices are weakint expressions without gates; where the
// element exists is `valid` (a boolean, nullptr = everywhere). Threading: one thread per Graph.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "runtime/ir/graph.h"

namespace modeld::schedule {

struct Access {
  ir::NodeVec idx;                  // one per axis
  const ir::Node* valid = nullptr;  // nullptr = always
};

const ir::Node* and_valid(ir::Graph& g, const ir::Node* a, const ir::Node* b);  // nullptr = true
const ir::Node* or_valid(ir::Graph& g, const ir::Node* a, const ir::Node* b);
const ir::Node* gate(ir::Graph& g, const ir::Node* idx, const ir::Node* valid);
// Splits WHERE(valid, idx, Invalid) (nested too) into idx and valid.
std::pair<const ir::Node*, const ir::Node*> split_gate(ir::Graph& g, const ir::Node* idx);

// Remembers reshape results on (shapes, renumbered ranges); one per schedule.
class IndexTransform {
 public:
  explicit IndexTransform(ir::Graph& g) : g_(g) {}
  // Access of `movement`'s result -> access of its source 0.
  Access apply(const ir::Node* movement, const Access& out);
  ir::NodeVec reshape(std::span<const int64_t> in_shape,
                      std::span<const int64_t> out_shape,
                      const ir::NodeVec& out);
  // Row-major flat index.
  const ir::Node* flatten(std::span<const int64_t> shape, const ir::NodeVec& idx);

  int64_t cache_hits() const { return hits_; }
  int64_t cache_misses() const { return misses_; }

 private:
  struct Key {
    std::vector<int64_t> in, out;
    ir::NodeVec idx;
    auto operator<=>(const Key&) const = default;
  };
  ir::NodeVec reshape_group(std::span<const int64_t> in,
                            std::span<const int64_t> out,
                            const ir::NodeVec& idx);

  ir::Graph& g_;
  std::map<Key, ir::NodeVec> cache_;  // never iterated: pointer order does not reach any output
  int64_t hits_ = 0;
  int64_t misses_ = 0;
};

}  // namespace modeld::schedule
