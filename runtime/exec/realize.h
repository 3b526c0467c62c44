// realize: compute values of a graph now, on a CPU device of this process: compile_plan, load, one
// run. For tests and library users; programs that run a model many times keep a Plan instead.
// Contract: inputs are given by name and must have exactly the bytes of their tensors; errors are
// those of compile_plan and LoadedPlan. Threading: any thread; each call opens its own device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/exec/compile_plan.h"
#include "runtime/ir/graph.h"
#include "runtime/tensor/weight_store.h"

namespace modeld::exec {

struct HostTensor {
  ir::DType dtype = ir::DType::kF32;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;

  // Elements converted to double, for comparisons.
  std::vector<double> to_doubles() const;
};

struct RealizeResult {
  std::vector<HostTensor> outputs;  // in the order asked for
  Plan plan;                        // what ran, for kernel counts and figures
};

using InputData = std::map<std::string, std::vector<std::byte>>;
using ScalarData = std::map<std::string, int64_t>;

// `inputs` and `scalars` of the entry are those the outputs depend on: named BUFFER nodes and
// variables.
Result<RealizeResult> realize(ir::Graph& g,
                              std::span<const ir::Node* const> outputs,
                              const tensor::WeightStore& weights,
                              const InputData& inputs = {},
                              const ScalarData& scalars = {},
                              const CompileOptions& options = {});

// One entry of a plan on its own CPU device, once.
Result<std::vector<HostTensor>> run_once(const Plan& plan,
                                         const std::string& entry,
                                         const InputData& inputs,
                                         const ScalarData& scalars = {});

}  // namespace modeld::exec
