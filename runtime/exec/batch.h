// batch_calls: cuts a compiled LINEAR into graphs, runs of calls that are recorded once and
// submitted as one. It is a pure function and records nothing (graph_replay.h does).
// Contract: batches cover the calls in order. A call joins the running batch if its device takes it
// into a graph, alone and together with the devices already there, and the batch is below the
// limit. The limit doubles with every graph made. Other calls stay plain and break the batch; a
// batch of one stays plain unless asked for. Units: calls. Threading: pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/exec/compiled_linear.h"

namespace modeld::exec {

enum class GraphSupport : uint8_t {
  kNone,    // every call is submitted on its own
  kSingle,  // kernels of this one device
  kPeers,   // kernels, and copies and kernels of other devices of its type
};

struct GraphDevice {
  GraphSupport support = GraphSupport::kPeers;
  uint32_t type = 0;  // devices of equal type can wait for one another
};

struct BatchOptions {
  size_t limit = 32;  // calls in the first batch; 0: no limit
  bool graph_one_kernel = false;
  bool no_graphs = false;
};

struct Batch {
  uint32_t first = 0, count = 0;
  bool is_graph = false;         // else one plain call
  std::vector<uint32_t> inputs;  // of a graph: inputs its calls name, in order of first use
  bool operator==(const Batch&) const = default;
};

// `devices`: one per row of linear.devices.
std::vector<Batch> batch_calls(const CompiledLinear& linear,
                               std::span<const GraphDevice> devices,
                               const BatchOptions& options = {});

}  // namespace modeld::exec
