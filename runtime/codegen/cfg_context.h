// CFGContext: which loop must follow which, so that every linear order nests loops properly
// (pipeline hand-book 8.2). Contract: `edges` maps a RANGE to one more thing it must come after:
// the RANGE it is nested in, or the END of the sibling before it. An impossible order latches an
// error. Threading: one thread per Graph.
#pragma once

#include <map>

#include "runtime/ir/graph.h"

namespace modeld::codegen {

class CFGContext final {
 public:
  CFGContext(ir::Graph& g, const ir::Node* sink);
  // Null if the range needs nothing more.
  const ir::Node* edge(const ir::Node* range) const;

 private:
  std::map<const ir::Node*, const ir::Node*> edges_;  // for lookup only
};

}  // namespace modeld::codegen
