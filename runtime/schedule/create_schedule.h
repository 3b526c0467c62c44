// create_schedule: kernel graph (AFTER states of buffers) -> LINEAR in an order that respects every
// read-after-write and write-after-read. Needs split_store's CALLs; gives call records on base
// buffers. Contract: FIFO Kahn over kernels in discovery order, so the order depends on the graph
// only. Fault::kAssignCycle names kernels that wait on each other, kStaleReader a kernel that needs
// a buffer both before and after it is overwritten, kAfterItem a state that waits on something odd;
// never a best-effort order. Threading: one thread per Graph.
#pragma once

#include <vector>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

namespace modeld::schedule {

// `to` runs after `from`: it reads what `from` writes, or overwrites the state `from` reads.
struct KernelEdge {
  const ir::Node* from;
  const ir::Node* to;
  const ir::Node* overwritten;  // the state read before; nullptr = read after write
};

// The dependency edges, for tests and dumps: in the order found, each pair once.
struct KernelEdges {
  ir::NodeVec kernels;  // discovery order
  std::vector<KernelEdge> edges;
};
Result<KernelEdges> kernel_edges(const ir::Node* kernel_graph);

Result<const ir::Node*> create_schedule(ir::Graph& g, const ir::Node* kernel_graph);

// The states behind an argument: multi-device nodes fan out to their parts.
void states_of(const ir::Node* argument, ir::NodeVec* out);
// The BUFFER or PARAM below views and states.
const ir::Node* base_buffer(const ir::Node* state);

}  // namespace modeld::schedule
