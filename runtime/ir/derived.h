// Derived properties of nodes, computed on demand without recursion and memoised in the Graph
// (pipeline hand-book 1.4).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/ir/graph.h"

namespace modeld::ir {

// Shape as dimension nodes (weakint Consts, or symbolic). Effects (STORE, END, SINK ...) have shape
// (). A shape error (reshape product, shrink out of bounds ...) latches an error in the Graph and
// gives ().
using Shape = NodeVec;
const Shape& shape(Graph& g, const Node* n);
// All dims concrete; symbolic dims give their vmax.
std::vector<int64_t> max_shape(Graph& g, const Node* n);
std::vector<int64_t> dims(Graph& g, const Node* n);  // fails the Graph if symbolic
int64_t element_count(Graph& g, const Node* n);      // of max_shape
std::vector<int64_t> const_ints(const Node* stack);  // values of a Stack of Consts (or one Const)

// Interval of an integer/bool value (weak ints saturate at int64). Floats: unknown = [min,max] of
// int64 except consts.
struct Bounds {
  int64_t vmin;
  int64_t vmax;
};
Bounds bounds(Graph& g, const Node* n);
inline int64_t vmin(Graph& g, const Node* n) {
  return bounds(g, n).vmin;
}
inline int64_t vmax(Graph& g, const Node* n) {
  return bounds(g, n).vmax;
}

// RANGE nodes the value depends on and which are not closed below it; sorted by (axis type
// position, id).
const NodeVec& ranges(Graph& g, const Node* n);
bool depends_on(Graph& g, const Node* n, const Node* rng);

// Strips movement ops and DETACH.
const Node* base(const Node* n);
const Node* unsharded_base(const Node* n);  // UNSHARD too
// Own device of BUFFER/PARAM/STAGE/COPY/ALLREDUCE, MSELECT picks, MSTACK joins, else the first
// source that has one; "" = none; several: a tuple (runtime/ir/sharding.h).
const std::string& device(Graph& g, const Node* n);
AddrSpace addrspace(Graph& g, const Node* n);
bool is_virtual(Graph& g, const Node* n);     // no device or weak dtype
bool has_buffer_identity(const Node* n);      // BUFFER/PARAM under RESHAPE/UNSHARD/MSELECT only
bool needs_storage(Graph& g, const Node* n);  // !is_virtual && !has_buffer_identity

// (buffer, element offset) if the movement chain over a BUFFER/PARAM is one contiguous run.
struct View {
  const Node* buffer;
  int64_t offset;
};
std::optional<View> contiguous_view(Graph& g, const Node* n);

// Largest known integer that divides the value (>= 1).
int64_t const_factor(Graph& g, const Node* n);

}  // namespace modeld::ir
