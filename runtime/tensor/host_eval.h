// Evaluates a tensor graph on the host, slowly and plainly: constant folding during import, and the
// oracle of tests. It walks the graph node by node and holds every value densely; floats are
// doubles rounded to the node's dtype after each op, integers are int64 wrapped to it; sums add up
// in double and round once. It shares no code with the compiler. Contract: handles everything the
// tensor front end makes (elementwise, movement, REDUCE, INDEX, CONTIGUOUS, STACK, AFTER with
// STORE). Anything else is an error naming the op. Threading: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/tensor/tensor.h"

namespace modeld::tensor {

// One element: f for float types, i for integers and bool.
union Cell {
  double f;
  int64_t i;
};

// A dense array in row-major order.
struct HostArray {
  DType dtype = DType::kF32;
  Dims dims;
  std::vector<Cell> cells;

  double at(size_t n) const {
    return ir::is_float(dtype) ? cells[n].f : static_cast<double>(cells[n].i);
  }
};

Result<HostArray> from_bytes(DType dtype, const Dims& dims, std::span<const std::byte> bytes);
std::vector<std::byte> to_bytes(const HostArray& a);
HostArray host_floats(const Dims& dims, const std::vector<double>& v, DType dtype = DType::kF32);
HostArray host_ints(const Dims& dims, const std::vector<int64_t>& v, DType dtype = DType::kI32);

class HostEval {
 public:
  explicit HostEval(ir::Graph& g, const WeightStore* weights = nullptr)
      : g_(g), weights_(weights) {}

  // Contents of a BUFFER (or PARAM) under reshapes.
  void bind(const Tensor& input, HostArray value);
  void set_variable(const std::string& name, int64_t value) { variables_[name] = value; }
  Result<HostArray> run(const Tensor& t) { return run(t.node()); }
  Result<HostArray> run(const ir::Node* n);

 private:
  ir::Graph& g_;
  const WeightStore* weights_;
  std::unordered_map<const ir::Node*, HostArray> bound_;
  std::map<std::string, int64_t> variables_;
};

}  // namespace modeld::tensor
