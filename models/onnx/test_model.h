// Makes small ONNX files for this folder's tests; the protobuf classes stay in test_model.cc.
// Nothing is checked: broken models are the point of many tests. Threading: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/ir/dtype.h"

namespace modeld::onnx_import {

struct Attr {
  std::string name;
  std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>> value;
};

class TestModel {
 public:
  using Dims = std::vector<int64_t>;
  using Names = std::vector<std::string>;

  explicit TestModel(int64_t opset);
  ~TestModel();
  TestModel(TestModel&&) noexcept;

  // A dim of -1 is dynamic and called "N".
  TestModel& input(const std::string& name, const Dims& dims, ir::DType t = ir::DType::kF32);
  TestModel& output(const std::string& name, ir::DType t = ir::DType::kF32);
  TestModel& floats(const std::string& name,
                    const Dims& dims,
                    const std::vector<double>& v,
                    ir::DType t = ir::DType::kF32);
  TestModel& ints(const std::string& name,
                  const Dims& dims,
                  const std::vector<int64_t>& v,
                  ir::DType t = ir::DType::kI64);
  TestModel& node(const std::string& op,
                  const Names& in,
                  const Names& out,
                  const std::vector<Attr>& attrs = {},
                  const std::string& name = "",
                  const std::string& domain = "");
  // An attribute holding a tensor, on the last node.
  TestModel& tensor_attr(const std::string& name, const Dims& dims, const std::vector<double>& v);
  TestModel& graph_attr(const std::string& name);
  // An initialiser with the given bytes and ONNX type number.
  TestModel& raw(const std::string& name, const Dims& dims, int32_t type, const std::string& bytes);
  TestModel& external(const std::string& name,
                      const Dims& dims,
                      const std::vector<std::pair<std::string, std::string>>& entries);
  TestModel& metadata(const std::string& key, const std::string& value);
  std::vector<std::byte> bytes() const;

 private:
  struct Proto;
  std::unique_ptr<Proto> proto_;
};

}  // namespace modeld::onnx_import
