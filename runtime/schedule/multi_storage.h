// MultiStorage: memory and transfers of values on several devices, while a graph is being resolved.
// A transfer is a store of one device's buffer into another's (copy_from_store finds it again after
// scheduling), so everything that is sent, received, stacked or selected is a flat buffer state.
// Contract: one buffer per (value, device), whoever asks; constants need no transfer. Lifetime: one
// resolve_multi. Threading: one thread per Graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "runtime/ir/graph.h"
#include "runtime/ir/sharding.h"

namespace modeld::schedule {

class MultiStorage {
 public:
  explicit MultiStorage(ir::Graph& g) : g_(g) {}

  // `x` as flat storage if it is some already (RESHAPEs, CONTIGUOUS do not count), else nullptr.
  const ir::Node* flat_state(const ir::Node* x);
  // The same, and any other value gets a buffer on its own device(s).
  const ir::Node* state_of(const ir::Node* x);
  // x on device `to`, in x's shape: a transfer unless it is there already.
  const ir::Node* moved(const ir::Node* x, const std::string& to);
  // What `state` is a transfer of, nullptr = it is none of ours.
  const ir::Node* source_of(const ir::Node* state) const;
  bool is_own(const ir::Node* buffer) const { return own_.contains(buffer); }
  // What device i of a tuple holds of x, in x's shape. x is no global (UNSHARD) value.
  const ir::Node* part_of(const ir::Node* x, int64_t i);
  // One value per device, of one shape -> a value on all of them.
  const ir::Node* stacked(const ir::NodeVec& parts);

  // A constant or index expression as device i sees it.
  const ir::Node* on_device(const ir::Node* expression, int64_t i);

 private:
  const ir::Node* store_into_fresh(const ir::Node* value, const std::string& device);
  const ir::Node* in_shape(const ir::Node* flat, const ir::Node* like);

  ir::Graph& g_;
  std::unordered_set<const ir::Node*> own_;  // buffers made here
  std::unordered_map<const ir::Node*, const ir::Node*> states_;
  std::map<std::pair<uint32_t, std::string>, const ir::Node*> moved_;  // by id: never iterated
  std::unordered_map<const ir::Node*, const ir::Node*> sources_;       // of `moved_` states
};

}  // namespace modeld::schedule
