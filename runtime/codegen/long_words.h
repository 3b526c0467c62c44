// Arithmetic of 64-bit integers as two 32-bit words (pipeline hand-book 7.6), for targets that have
// none. Contract: words are u32 nodes, the result is that of the 64-bit op, wrapping included;
// division by zero gives 0, its remainder the dividend. Works on vectors lane by lane.
// Threading: one thread per Graph.
#pragma once

#include "runtime/ir/graph.h"

namespace modeld::codegen {

struct LongWords {
  const ir::Node* low = nullptr;
  const ir::Node* high = nullptr;
};

class LongMath {
 public:
  explicit LongMath(ir::Graph& g) : g_(g) {}

  LongWords constant(int64_t v) const;
  // An ALU op that gives a long; operands of type t (i64 or u64).
  LongWords alu(ir::Op op, ir::DType t, const LongWords& a, const LongWords& b) const;
  LongWords pick(const ir::Node* c, const LongWords& a, const LongWords& b) const;
  const ir::Node* compare(ir::Op op, ir::DType t, const LongWords& a, const LongWords& b) const;
  LongWords from(const ir::Node* n) const;  // of any narrower integer, bool or float
  const ir::Node* to(const LongWords& a, ir::DType from, ir::DType to) const;

 private:
  ir::Graph& g_;

  using N = const ir::Node*;
  N k(int64_t v) const { return ir::const_int(g_, v, ir::DType::kU32); }
  N op(ir::Op o, N a, N b) const { return ir::alu(g_, o, {a, b}); }
  N flag(N condition) const { return ir::cast(g_, condition, ir::DType::kU32); }
  N sign_of(N high) const;  // all ones where the number is negative
  LongWords add(const LongWords& a, const LongWords& b) const;
  LongWords sub(const LongWords& a, const LongWords& b) const;
  LongWords mul(const LongWords& a, const LongWords& b) const;
  LongWords shift_left(const LongWords& a, N count) const;
  LongWords shift_right(const LongWords& a, N count, bool is_signed) const;
  struct Quotient {
    LongWords quotient, remainder;
  };
  Quotient divide(const LongWords& a, const LongWords& b) const;
  LongWords divided(bool wants_quotient, bool is_signed, LongWords a, LongWords b) const;
  LongWords negated_if(N condition, const LongWords& a) const;
  LongWords from_float(N x) const;
  N to_float(const LongWords& a, bool is_signed, ir::DType t) const;
};

}  // namespace modeld::codegen
