// Helpers shared by the kernel passes: rebuild a graph once, replace ranges, take gated indices
// apart. These are not passes. Threading: one thread per Graph.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "runtime/ir/derived.h"
#include "runtime/ir/graph.h"
#include "runtime/ir/rewrite.h"

namespace modeld::codegen {

// Results per node id.
class NodeTable {
 public:
  const ir::Node* get(const ir::Node* n) const {
    return n->id < table_.size() ? table_[n->id] : nullptr;
  }
  void set(const ir::Node* n, const ir::Node* value) {
    if (table_.size() <= n->id) table_.resize(static_cast<size_t>(n->id) * 3 / 2 + 64, nullptr);
    table_[n->id] = value;
  }

 private:
  std::vector<const ir::Node*> table_;
};

// Visits every node below root once, sources first; f(node, new sources) gives the replacement.
template <class F>
const ir::Node* map_graph(ir::Graph& g, const ir::Node* root, F f) {
  NodeTable done;
  ir::NodeVec src;
  for (const ir::Node* n : ir::toposort(root)) {
    src.clear();
    for (const ir::Node* s : n->src()) src.push_back(done.get(s));
    const ir::Node* r = f(n, src);
    if (g.failed()) return root;
    done.set(n, r);
  }
  return done.get(root);
}

const ir::Node* rebuilt(ir::Graph& g, const ir::Node* n, const ir::NodeVec& src);

// Replaces RANGE nodes by expressions everywhere and keeps END/REDUCE range lists flat.
const ir::Node* replace_ranges(ir::Graph& g, const ir::Node* root, const ir::NodeMap& map);
// Replaces ranges that are open at root only: what closed a range below keeps it.
const ir::Node* rename_open_ranges(ir::Graph& g, const ir::Node* root, const ir::NodeMap& map);
// END/REDUCE range lists hold RANGE nodes only: expressions give their ranges, consts go.
const ir::Node* flatten_ranges(ir::Graph& g, const ir::Node* root);
// The closed sources of END/REDUCE as a flat list of RANGE nodes.
ir::NodeVec flat_ranges(const ir::NodeVec& closed);

// Every RANGE below root, sorted by (axis position, id).
ir::NodeVec all_ranges(const ir::Node* root);
int64_t range_size(ir::Graph& g, const ir::Node* rng);
bool closes_ranges(const ir::Node* n);  // END or REDUCE

// WHERE(gate, index, Invalid) taken apart; gate is null when there is none.
struct GatedIndex {
  const ir::Node* gate;
  const ir::Node* index;
};
GatedIndex split_gate(const ir::Node* index);
const ir::Node* join_gate(ir::Graph& g, const ir::Node* gate, const ir::Node* index);

// index = base + offset with a constant offset; base is null for a constant index.
struct BaseOffset {
  const ir::Node* base;
  int64_t offset;
};
BaseOffset split_offset(const ir::Node* index);

// The BUFFER or PARAM below AFTER, INDEX and SHRINK; null if the node is not memory.
const ir::Node* memory_root(const ir::Node* n);
// INDEX or SHRINK on memory (not on a value).
bool is_address(const ir::Node* n);
ir::AddrSpace memory_space(const ir::Node* root);
// Elements one access touches: the length of a SHRINK, 4 for a pixel of an image, else 1.
int64_t access_width(const ir::Node* address);

const ir::Node* after(ir::Graph& g, const ir::Node* value, const ir::NodeVec& deps);
const ir::Node* group(ir::Graph& g, const ir::NodeVec& effects);
// The neutral element of a reduce.
const ir::Node* identity_of(ir::Graph& g, ir::Op op, ir::DType t);

}  // namespace modeld::codegen
