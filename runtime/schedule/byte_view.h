// byte_view: where a view of storage lies, if it needs no copy: the chain of movement ops and
// BITCASTs (size changing ones too) over a BUFFER or PARAM is one contiguous run of bytes.
// It is contiguous_view (runtime/ir/derived.h) through bitcasts. Contract: symbolic dims are no
// view, and never latch an error. Units: bytes. Threading: as the Graph.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/ir/graph.h"

namespace modeld::schedule {

struct ByteView {
  const ir::Node* buffer = nullptr;  // BUFFER or PARAM
  int64_t offset = 0;                // bytes
};

std::optional<ByteView> byte_view(ir::Graph& g, const ir::Node* n);

// Below movement ops, BITCAST, DETACH and UNSHARD.
const ir::Node* below_views(const ir::Node* n);
bool is_symbolic(ir::Graph& g, const ir::Node* n);  // a dim of its shape is no constant

}  // namespace modeld::schedule
