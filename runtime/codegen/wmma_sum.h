// Sums of matrix-unit steps: adding every element of a step's result to a running sum is what the
// step's accumulator does. Part of the expander and of remove_reduces, which make such sums.
// Threading: one thread per Graph.
#pragma once

#include <vector>

#include "runtime/ir/graph.h"

namespace modeld::codegen {

// INDEX(WMMA, constant).
bool is_wmma_element(const ir::Node* n);

// sums[i] op terms[i][0] op terms[i][1] ..., lane by lane; steps whose every element is added to
// some lane take those lanes as their accumulator instead. `sums` may be empty: start from the
// first terms.
ir::NodeVec add_terms(ir::Graph& g,
                      ir::Op op,
                      const ir::NodeVec& sums,
                      const std::vector<ir::NodeVec>& terms);

}  // namespace modeld::codegen
