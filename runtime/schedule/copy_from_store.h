// copy_from_store: a kernel that only moves items of one buffer to another device becomes a COPY
// call again. Needs resolved calls (devices known). Contract: only `dst[r + a] = src[r + b]` over
// one range or one item, without a cast, between different devices (or onto DISK); everything else
// stays a kernel. The call is CALL(COPY(PARAM 1), dst, src) with arguments of equal size: BUFFERs,
// or SHRINKs of them where only a part moves. Threading: one thread per Graph.
#pragma once

#include "runtime/ir/graph.h"

namespace modeld::schedule {

const ir::Node* copy_from_store(ir::Graph& g, const ir::Node* linear);

}  // namespace modeld::schedule
