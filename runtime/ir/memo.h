// Memo tables of derived properties, indexed by node id. Private to runtime/ir.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/ir/derived.h"
#include "runtime/ir/graph.h"
#include "runtime/ir/sharding.h"

namespace modeld::ir {

struct Graph::Memo {
  std::vector<std::unique_ptr<Shape>> shapes;
  std::vector<std::unique_ptr<NodeVec>> ranges;
  std::vector<std::optional<Bounds>> bounds;
  std::vector<int64_t> factors;  // 0 = unknown
  std::vector<const Node*> base_storage;
  std::vector<std::unique_ptr<Sharding>> shardings;
  std::vector<const std::string*> devices;  // into arguments of nodes and `tuples`
  std::set<std::string> tuples;             // of values that join or pick devices
};

template <class T>
T& memo_at(std::vector<T>& table, const Node* n) {
  if (table.size() <= n->id) table.resize(static_cast<size_t>(n->id) * 3 / 2 + 64);
  return table[n->id];
}

}  // namespace modeld::ir
