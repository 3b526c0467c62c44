// How many lanes a program value has and, for vectors of bool, how wide their mask lanes are;
// which vectors and vector operations the instruction set has. Program nodes only, not INS.
// Contract: nodes of one Graph; sources before users. Threading: one thread per Graph.
#pragma once

#include <unordered_map>

#include "runtime/ir/graph.h"

namespace modeld::isa::x86 {

class Shapes {
 public:
  // 1 for scalars and for everything that is no value.
  int64_t lanes(const ir::Node* n);
  // Bits of a mask lane: 32 or 64; 0 where operands disagree. Only for vectors of bool.
  int mask_bits(const ir::Node* n);

 private:
  std::unordered_map<const ir::Node*, int64_t> lanes_;
  std::unordered_map<const ir::Node*, int> masks_;
};

// Value or memory in a register: f32x8, f32x4, f64x4, f64x2 and integers of those sizes; halves and
// bytes in eights and fours, in the low part of a register.
bool is_vector_shape(ir::DType t, int64_t lanes);
// Whether the operation on its whole vector has instructions.
bool has_vector_form(Shapes& shapes, const ir::Node* n);

// CAST of a CONST.
inline bool is_literal(const ir::Node* n) {
  return n->op == ir::Op::kCast && n->src(0)->op == ir::Op::kConst;
}
// INDEX or SHRINK of memory, and the buffer below; null for values.
const ir::Node* memory_of(const ir::Node* address);
bool is_register_buffer(const ir::Node* buffer);

}  // namespace modeld::isa::x86
