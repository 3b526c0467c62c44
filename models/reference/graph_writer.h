// Writes one ONNX graph: nodes with known static shapes, seeded weights, and the cost of what was
// written. The protobuf classes stay inside graph_writer.cc. Contract: shapes are checked by CHECK
// (the callers are ours); finish() may be called once. Determinism: weights come from an integer
// generator keyed by (seed, number of the tensor); no libm call but sqrt. Units: dims in elements.
// Threading: one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hal/base/status.h"

#include "models/reference/reference.h"

namespace modeld::reference {

enum class Elem : uint8_t { kF32, kF16, kU8, kI64 };

using Dims = std::vector<int64_t>;

// A tensor in the graph.
struct Value {
  std::string name;
  Dims dims;
  Elem elem = Elem::kF32;
};

int64_t element_count(const Dims& dims);

// Round to nearest even; overflow gives infinity.
uint16_t half_from_float(float value);

struct ConvSpec {
  int64_t out_channels = 0;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t groups = 1;
  double gain = 1.0;  // standard deviation of a weight = gain / sqrt(fan-in)
};

class GraphWriter final {
 public:
  GraphWriter(const std::string& graph_name, Elem float_elem, uint64_t seed);
  ~GraphWriter();
  GraphWriter(const GraphWriter&) = delete;
  GraphWriter& operator=(const GraphWriter&) = delete;

  Elem float_elem() const { return float_elem_; }

  Value input(const std::string& name, const Dims& dims, Elem elem);
  // Gives the tensor its outside name; it must not have been used by another node yet.
  void output(const std::string& name, const Value& value);

  // Uniform weights of the model's dtype with the given standard deviation around `mean`.
  Value weight(const std::string& name, const Dims& dims, double deviation, double mean = 0.0);
  Value scalar(const std::string& name, double value);
  Value ints(const std::string& name, const Dims& values);

  // Compute nodes. `name` is the node's name; its result is `name` + ":0".
  Value conv(const std::string& name, const Value& x, const ConvSpec& spec);
  Value gemm(const std::string& name,
             const Value& x,
             int64_t out_features,
             double gain,
             double bias = 0.02);
  Value matmul(const std::string& name, const Value& a, const Value& b);
  Value binary(const char* op, const std::string& name, const Value& a, const Value& b);
  Value unary(const char* op, const std::string& name, const Value& x);
  Value clip(const std::string& name, const Value& x, double low, double high);
  Value cast(const std::string& name, const Value& x);  // to the model's dtype
  Value softmax(const std::string& name, const Value& x);
  Value layer_norm(const std::string& name, const Value& x);
  Value pool(const char* op,
             const std::string& name,
             const Value& x,
             int64_t kernel,
             int64_t stride,
             int64_t padding);
  Value global_average_pool(const std::string& name, const Value& x);
  Value reduce_max_all(const std::string& name, const Value& x);  // every axis, keeps the rank

  // Movement nodes.
  Value reshape(const std::string& name, const Value& x, const Dims& dims);
  Value flatten(const std::string& name, const Value& x);
  Value transpose(const std::string& name, const Value& x, const Dims& order);
  Value concat(const std::string& name, const std::vector<Value>& parts, int64_t axis);
  Value slice(const std::string& name, const Value& x, int64_t axis, int64_t begin, int64_t end);

  // Adds the metadata and serialises; the result carries the figures, slices and context_frames.
  Result<ReferenceModel> finish(std::vector<Slice> slices, int context_frames);

 private:
  struct Proto;
  Value node(const char* op,
             const std::string& name,
             const std::vector<Value>& inputs,
             Dims dims,
             Elem elem);
  Value tensor(const std::string& name, const Dims& dims, Elem elem, const std::string& raw);
  std::string pack(std::span<const float> values) const;
  void attribute(const char* name, int64_t value);
  void attribute(const char* name, const Dims& values);
  void attribute(const char* name, float value);
  uint64_t next_random();

  std::unique_ptr<Proto> proto_;
  Elem float_elem_;
  uint64_t seed_;
  uint64_t state_ = 0;
  uint64_t tensors_ = 0;
  ReferenceModel figures_;
};

}  // namespace modeld::reference
