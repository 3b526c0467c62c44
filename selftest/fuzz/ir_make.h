// Makes graphs for the text fuzzer: any ops with any arguments (the reader must take what the
// printer writes), and kernels that the verifier accepts.
// Contract: a pure function of the generator's state. Threading: one per Graph.
#pragma once

#include "runtime/ir/graph.h"

#include "selftest/fuzz/fuzz_main.h"

namespace modeld::fuzz {

const ir::Node* any_graph(ir::Graph& g, Rng& rng);
const ir::Node* any_kernel(ir::Graph& g, Rng& rng);
// `links` nodes, each the source of the next.
const ir::Node* long_chain(ir::Graph& g, size_t links);

}  // namespace modeld::fuzz
