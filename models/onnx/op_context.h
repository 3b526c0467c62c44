// What the builder of one ONNX op sees: its inputs, attributes and outputs, and the one form of
// error. Contract: reading an attribute marks it as known; one that nobody read is an error after
// the builder ran. The first problem is kept (status()); accessors then give harmless values, so
// builders stay straight. Threading: as the Graph.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/tensor/tensor.h"

#include "models/onnx/onnx_reader.h"

namespace modeld::onnx_import {

using tensor::Tensor;

// One named value: known (host) or an expression (tensor).
struct Value {
  HostPtr host;
  Tensor tensor;
  DType dtype = DType::kVoid;
  Dims dims;
  bool present() const { return host != nullptr || tensor.valid(); }
};
Value value_of(HostPtr host);
Value value_of(const Tensor& t);

// A known value in the graph: without storage if all its elements are equal, else constant data.
Tensor materialise(ir::Graph& g,
                   tensor::WeightStore& store,
                   const HostTensor& host,
                   const std::string& device);

// "node 'Conv_3' (Conv, opset 11)"; a node without a name is named by its first output.
std::string node_text(const OnnxNode& n, int64_t opset);

class OpContext {
 public:
  OpContext(ir::Graph& graph,
            tensor::WeightStore& weights,
            std::string device_name,
            const OnnxNode& n,
            int64_t opset_version,
            std::vector<Value> inputs)
      : g(graph),
        store(weights),
        device(std::move(device_name)),
        node(n),
        opset(opset_version),
        inputs_(std::move(inputs)),
        outputs_(n.outputs.size()) {}

  ir::Graph& g;
  tensor::WeightStore& store;
  const std::string device;
  const OnnxNode& node;
  const int64_t opset;

  // ---- inputs ----
  size_t inputs() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].present(); }
  Tensor in(size_t i);
  Dims dims(size_t i);
  DType dtype(size_t i);
  HostPtr host(size_t i) const { return has(i) ? inputs_[i].host : nullptr; }
  // Values that must be known while importing.
  std::vector<int64_t> host_ints(size_t i, const char* what);
  std::vector<double> host_doubles(size_t i, const char* what);
  double host_scalar(size_t i, const char* what);
  bool require_float(size_t i = 0);
  bool require_same_dtype(size_t first, size_t last);

  // ---- attributes ----
  bool has_attr(const char* name) const { return node.attributes.count(name) != 0; }
  int64_t attr_int(const char* name, int64_t fallback);
  double attr_float(const char* name, double fallback);
  std::string attr_string(const char* name, const std::string& fallback);
  Dims attr_ints(const char* name, const Dims& fallback = {});
  std::vector<float> attr_floats(const char* name);
  HostPtr attr_tensor(const char* name);
  void ignore_attr(const char* name) { used_.insert(name); }

  // ---- outputs ----
  void out(Tensor t) { out(0, std::move(t)); }
  void out(size_t i, Tensor t);
  void out_host(HostTensor t);
  // Outputs after the first that somebody may ask for and we do not make.
  const std::vector<Value>& results() const { return outputs_; }
  std::vector<Value>& results() { return outputs_; }

  void error(const std::string& text, Errc code = Errc::kInvalid);
  Status status();  // first problem, the graph's error, or an attribute nobody read

 private:
  const OnnxAttribute* find(const char* name, OnnxAttribute::Kind kind);
  std::vector<Value> inputs_;
  std::vector<Value> outputs_;
  std::set<std::string> used_;
  std::optional<Error> problem_;
};

using Builder = void (*)(OpContext&);

// One row of onnx_ops.def.
struct OpRow {
  const char* name;
  int since;  // first and last opset in which this op exists with the meaning the builder knows
  int until;
  int min_inputs;
  int max_inputs;  // -1 = any number
  Builder build;
};
const OpRow* find_op(const std::string& name);  // nullptr: nobody wrote it
std::vector<std::string> op_names();            // sorted

}  // namespace modeld::onnx_import
