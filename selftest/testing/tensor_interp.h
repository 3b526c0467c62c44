// The tensor oracle for tests: runtime/tensor's host evaluation with .npy files and a small
// laboratory around it. Threading: one thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "hal/base/npy.h"

#include "runtime/tensor/host_eval.h"

namespace modeld::testing {

using tensor::HostArray;
using TensorInterp = tensor::HostEval;

Result<HostArray> from_npy(const NpyArray& npy);

// A graph with its constants and interpreter, and short words for tests.
class TensorLab {
 public:
  ir::Graph g;
  tensor::WeightStore store;
  TensorInterp interp{g, &store};

  tensor::Tensor floats(const tensor::Dims& dims,
                        const std::vector<double>& v,
                        ir::DType dtype = ir::DType::kF32);
  tensor::Tensor ints(const tensor::Dims& dims,
                      const std::vector<int64_t>& v,
                      ir::DType dtype = ir::DType::kI32);
  // Multiples of 1/64 in [-2, 2], the same for the same seed: exact in every float type.
  tensor::Tensor random(const tensor::Dims& dims, uint64_t seed, ir::DType dtype = ir::DType::kF32);
  // The values of a tensor this lab made.
  const std::vector<double>& data(const tensor::Tensor& t) const { return data_.at(t.node()); }
  // Runs and returns the elements as doubles; empty (and a note on stderr) on an error.
  std::vector<double> run(const tensor::Tensor& t);

 private:
  std::unordered_map<const ir::Node*, std::vector<double>> data_;
};

}  // namespace modeld::testing
