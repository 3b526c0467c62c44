// Small tensor programs that a device and a compiler get wrong first: mask edges, sizes that no
// vector divides, numbers that are none. They are compiled for a bundle's target, run on its
// device, and compared with the double-precision reference on the CPU. Contract: the same graphs
// and inputs everywhere; an error means that a graph could not be compiled or run. Threading: one
// thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hal/device.h"

#include "runtime/exec/compile_plan.h"
#include "runtime/tensor/tensor.h"

#include "models/tools/tensor_io.h"

namespace modeld::selftest {

struct NamedTensor {
  std::string name;
  tensor::Tensor tensor;
};
struct ProbeGraph {
  std::vector<NamedTensor> inputs, outputs;
};
// Adds its tensors to the graph.
using BuildProbe = ProbeGraph (*)(ir::Graph& g);

ProbeGraph mask_edge_graph(ir::Graph& g);       // padding, windows, cuts, conditions on places
ProbeGraph unaligned_graph(ir::Graph& g);       // odd sizes, views into the middle, small types
ProbeGraph special_number_graph(ir::Graph& g);  // arithmetic on NaN, infinities, zeroes, denormals

// Bytes of one input.
using InputBytes = std::function<tools::Bytes(const exec::TensorInfo& input)>;
tools::Bytes seeded_input(const exec::TensorInfo& input);
// NaN, infinities, both zeroes and a denormal among ordinary numbers.
tools::Bytes special_input(const exec::TensorInfo& input);

struct ProbeRow {
  std::string output;
  tools::Comparison comparison;
};
struct ProbeReport {
  size_t kernels = 0;
  std::vector<ProbeRow> rows;
};
// `options` as of the bundle's plan; `device` runs the subject, `cpu` the reference.
Result<ProbeReport> run_probe(BuildProbe build,
                              const InputBytes& inputs,
                              const exec::CompileOptions& options,
                              hal::Device& device,
                              hal::Device& cpu);

}  // namespace modeld::selftest
