// Reads an ONNX file into plain structs. The protobuf classes are used in onnx_reader.cc only.
// Contract: every size, count and offset is checked; tensors hold exactly dims x item bytes, little
// endian; external data stays inside the model's folder. Meaning of ops is not looked at.
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hal/base/hash.h"
#include "hal/base/status.h"

#include "runtime/ir/dtype.h"

namespace modeld::onnx_import {

using ir::DType;
using Dims = std::vector<int64_t>;

// A tensor whose values are known.
struct HostTensor {
  DType dtype = DType::kF32;
  Dims dims;
  std::vector<std::byte> bytes;

  int64_t count() const { return static_cast<int64_t>(bytes.size()) / ir::item_size(dtype); }
  std::vector<int64_t> ints() const;    // bool and integer types; floats are truncated
  std::vector<double> doubles() const;  // any type
};
using HostPtr = std::shared_ptr<const HostTensor>;
HostTensor host_of_ints(const Dims& dims, const std::vector<int64_t>& v, DType dtype = DType::kI64);
HostTensor host_of_floats(const Dims& dims,
                          const std::vector<double>& v,
                          DType dtype = DType::kF32);

struct OnnxAttribute {
  enum class Kind : uint8_t { kFloat, kInt, kString, kTensor, kFloats, kInts, kStrings, kOther };
  Kind kind = Kind::kOther;
  float f = 0;
  int64_t i = 0;
  std::string s;
  HostPtr tensor;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
};

struct OnnxNode {
  std::string name;
  std::string op;
  std::string domain;               // "" = the default one
  std::vector<std::string> inputs;  // "" = left out
  std::vector<std::string> outputs;
  std::map<std::string, OnnxAttribute> attributes;
};

struct OnnxDim {
  std::optional<int64_t> value;
  std::string param;
};

struct OnnxValueInfo {
  std::string name;
  DType dtype = DType::kF32;
  bool has_shape = false;
  std::vector<OnnxDim> dims;
};

struct OnnxModel {
  int64_t opset = 0;
  std::string producer;
  std::vector<OnnxNode> nodes;
  std::map<std::string, HostPtr> initialisers;
  std::vector<OnnxValueInfo> inputs;  // as listed, initialisers too
  std::vector<OnnxValueInfo> outputs;
  std::map<std::string, std::string> metadata;
  Hash256 sha256;
};

inline constexpr uint64_t kMaxModelBytes = uint64_t{2} << 30;
inline constexpr int kMaxRank = 12;

// `folder` is where external data lies; "" = none allowed. `what` names the model in errors.
Result<OnnxModel> read_onnx(std::span<const std::byte> bytes,
                            const std::string& folder,
                            const std::string& what);

// ONNX data type number -> dtype.
std::optional<DType> onnx_dtype(int64_t number);

}  // namespace modeld::onnx_import
