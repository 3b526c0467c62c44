// decide: the fusion decision of run_rangeify for one value, as a pure function on index vectors.
// Contract: indices come without gates; results name either the inherited indices with the OR of
// all gates, or "materialise every axis". Threading: one thread per Graph (masks are built in it).
#pragma once

#include <vector>

#include "runtime/ir/graph.h"
#include "runtime/schedule/index_transform.h"

namespace modeld::schedule {

struct Decision {
  enum class Kind : uint8_t {
    kSkip,     // nobody asks for it by index, or it is never staged
    kInherit,  // computed where it is used, at `out`
    kRealize,  // gets memory over all its axes; the ending list is cleared
  };
  Kind kind = Kind::kSkip;
  Access out;                  // for kInherit
  bool clears_ending = false;  // the producers do not see the ending ranges any more
};

struct DecideInput {
  const ir::Node* node = nullptr;
  std::vector<Access> consumers;  // how each consumer asks for it (broadcast axes: const 0)
  bool has_ending = false;        // a loop opened by a later broadcast would re-run this work
  bool marked = false;            // CONTIGUOUS, STORE value with self access, custom call argument
};

Decision decide(ir::Graph& g, const DecideInput& in);

// BUFFER, PARAM, AFTER, MSELECT, MSTACK, CONST: indexed directly, never staged.
bool is_never_staged(const ir::Node* n);

}  // namespace modeld::schedule
