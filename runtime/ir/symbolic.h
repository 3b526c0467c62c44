// Integer and boolean simplification of index math, and light float/load algebra (pipeline
// hand-book appendix A). Three strengths: simple (identities, folding), symbolic (ordering,
// div/mod, where), sym (adds load/store algebra).
#pragma once

#include "runtime/ir/rewrite.h"

namespace modeld::ir {

const RuleSet& simple_rules();
const RuleSet& symbolic_rules();
const RuleSet& sym_rules();

// rewrite() with symbolic_rules.
const Node* simplify(Graph& g, const Node* n);

// Index simplified knowing `valid` (a boolean) holds; terms of valid that say nothing more may be
// used but are kept by the caller.
const Node* simplify_given(Graph& g, const Node* value, const Node* valid);
// Splits a conjunction into its terms.
NodeVec split_and(const Node* cond);
const Node* and_all(Graph& g, const NodeVec& terms);

// Exact arithmetic on constants: what the op gives on these scalar consts, typed; nullptr if it
// cannot be folded (division by zero, Invalid, unknown).
const Node* fold_const(Graph& g, const Node* alu_node);

}  // namespace modeld::ir
