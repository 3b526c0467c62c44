// Sums of weak integers in one canonical form, and floor division and modulo of such sums by
// constants. x = sum(coefficient * term) + constant, terms in structural order, no term a sum,
// product by a constant or difference. Private to runtime/ir.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "runtime/ir/graph.h"

namespace modeld::ir {

struct SumForm {
  std::vector<std::pair<const Node*, int64_t>>
      terms;  // sorted by structural_less, coefficients not 0
  int64_t constant = 0;
};

// Empty when an intermediate overflows int64 (then the expression stays as it is).
std::optional<SumForm> sum_form(const Node* n);
const Node* build_sum(Graph& g, const SumForm& sum);

// The canonical node of a sum, quotients recombined with their remainders; n itself if nothing
// changes.
const Node* canonical_sum(Graph& g, const Node* n);
// x // c and x % c (floor) for c > 0; nullptr if no simpler form is known.
const Node* simplify_div(Graph& g, const Node* x, int64_t c);
const Node* simplify_mod(Graph& g, const Node* x, int64_t c);

}  // namespace modeld::ir
