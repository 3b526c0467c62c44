// The selector behind isel(), shared by its files: isel.cc (driver), isel_operands.cc (registers,
// constants, memory), isel_alu.cc (arithmetic, comparisons), isel_cast.cc (conversions),
// isel_lanes.cc (vectors from and to scalars). Contract and register conventions: isel.h.
// Threading: one thread per Graph.
#pragma once

#include <optional>
#include <string>

#include "runtime/codegen/graph_util.h"
#include "runtime/isa/ins.h"
#include "runtime/isa/x86/patterns.h"
#include "runtime/isa/x86/shapes.h"

namespace modeld::isa::x86 {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

inline int bits_of(DType t) {
  return ir::item_bits(t);
}
// Scalars of these types stand in vector registers.
inline bool is_wide_float(DType t) {
  return t == DType::kF32 || t == DType::kF64;
}
inline std::string with_width(const char* name, int64_t bytes) {
  return std::string(name) + (bytes == 32 ? ".y" : ".x");
}
uint64_t literal_bits(DType t, const Node* constant);

class Selector {
 public:
  explicit Selector(Graph& g) : g_(g) {}
  const Node* run(const Node* sink);

 private:
  Graph& g_;
  Shapes shapes_;
  codegen::NodeTable done_;

  const Node* select(const Node* n);
  const Node* rebuilt(const Node* n);
  const Node* bad(const Node* n);

  // Operands. `get` is a scalar in its register; `vec` a whole vector, scalars spread.
  const Node* get(const Node* n);
  const Node* vec(const Node* n, int64_t lanes, int mask_bits);
  const Node* spread(const Node* n, int64_t lanes, int mask_bits);
  const Node* literal(DType t, const Node* c);
  const Node* pool_vector(DType t, uint64_t bits, int64_t bytes);
  const Node* zero_vector(int64_t bytes);
  std::optional<int64_t> immediate(const Node* n) const;
  const Node* extended(DType t, const Node* value);
  int64_t value_bytes(const Node* n);

  // Memory
  const Node* words();
  const Node* param(const Node* n);
  Address address(const Node* n);
  const Node* load(const Node* n);
  const Node* store(const Node* n);
  const Node* accumulator(const Node* n, const Node* value);

  // Values
  const Node* alu(const Node* n);
  const Node* scalar_alu(const Node* n);
  const Node* vector_alu(const Node* n);
  const Node* shift_immediate(const Node* n, int64_t by);
  const Node* add_address(const Node* n);
  const Node* max_float(const Node* n, int64_t lanes);
  const Node* mulacc(const Node* n, int64_t lanes);
  const Node* negate(const Node* n, int64_t lanes);
  const Node* trunc(const Node* n, int64_t lanes);
  const Node* divide(const Node* n);
  const Node* compare(const Node* n);
  const Node* compare_ints(const Node* n);
  const Node* float_mask(const Node* n, int64_t lanes);
  const Node* vector_compare(const Node* n, int64_t lanes);
  const Node* where(const Node* n);
  const Node* mask_of(const Node* condition, DType t, int64_t lanes);
  const Node* cast(const Node* n);
  const Node* scalar_cast(const Node* n);
  const Node* vector_cast(const Node* n, int64_t lanes);
  const Node* narrowed(const Node* words_vector, DType to, int64_t lanes);
  const Node* bitcast(const Node* n);
  const Node* element(const Node* n);
  const Node* stack(const Node* n);
  const Node* stack_floats(const Node* n, size_t from, size_t count);
  const Node* stack_ints(const Node* n, size_t from, size_t count);
};

}  // namespace modeld::isa::x86
