// Ops the target does not have, written with ops it has (pipeline hand-book 7.4 and 7.7). Each
// takes one node and returns its replacement; early_decomp and late_decomp call them. Contract:
// results do not depend on vector width. Threading: one thread per Graph.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/ir/graph.h"

namespace modeld::codegen {

const ir::Node* decompose_threefry(ir::Graph& g, const ir::Node* n);

// f32 and f64; aim 1 ULP (2 ULP in f64).
const ir::Node* decompose_exp2(ir::Graph& g, const ir::Node* n);
const ir::Node* decompose_log2(ir::Graph& g, const ir::Node* n);
const ir::Node* decompose_sin(ir::Graph& g, const ir::Node* n);

// A finite f64 of at least 2^20 in quarter turns: the whole ones (their low two bits count) and the
// rest in [-1/2, 1/2].
struct QuarterTurns {
  const ir::Node* quadrant;  // i32
  const ir::Node* fraction;  // f64
  const ir::Node* tail;      // what the fraction's 53 bits lose
};
QuarterTurns reduce_huge(ir::Graph& g, const ir::Node* a);
// Rounds towards zero without a hardware instruction.
const ir::Node* decompose_trunc(ir::Graph& g, const ir::Node* n);

// f16, bf16 and 8-bit floats as their bits <-> f32 (runtime/ir/narrow_float.h has the rules):
// widening is exact, narrowing rounds to nearest even.
const ir::Node* widen_narrow(ir::Graph& g, const ir::Node* n);
const ir::Node* narrowed_to(ir::Graph& g, const ir::Node* f32, ir::DType to);

// x / d = (x * m) >> s for 0 <= x <= vmax.
struct Magic {
  int64_t multiplier;
  int64_t shift;
};
std::optional<Magic> magic_division(int64_t d, int64_t vmax);
// CDIV/CMOD of a non-negative value by a constant; null if it does not apply.
const ir::Node* fast_division(ir::Graph& g, const ir::Node* n);

}  // namespace modeld::codegen
