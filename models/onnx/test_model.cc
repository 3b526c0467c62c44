#include "models/onnx/test_model.h"

#include <onnx/onnx_pb.h>

#include "models/onnx/onnx_reader.h"

namespace modeld::onnx_import {

struct TestModel::Proto {
  onnx::ModelProto model;
  onnx::GraphProto& graph() { return *model.mutable_graph(); }
};

namespace {

int32_t number_of(ir::DType t) {
  for (int32_t n = 1; n <= 16; ++n) {
    if (onnx_dtype(n) == t) return n;
  }
  return 0;
}

void fill(onnx::TensorProto& p,
          const std::string& name,
          const TestModel::Dims& dims,
          int32_t type,
          const std::string& bytes) {
  p.set_name(name);
  for (const int64_t d : dims) p.add_dims(d);
  p.set_data_type(type);
  p.set_raw_data(bytes);
}

std::string text(const HostTensor& t) {
  return {reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()};
}

void describe(onnx::ValueInfoProto& v, const std::string& name, ir::DType t) {
  v.set_name(name);
  v.mutable_type()->mutable_tensor_type()->set_elem_type(number_of(t));
}

}  // namespace

TestModel::TestModel(int64_t opset) : proto_(std::make_unique<Proto>()) {
  proto_->model.set_ir_version(8);
  proto_->model.set_producer_name("test");
  proto_->model.add_opset_import()->set_version(opset);
  proto_->graph().set_name("test");
}

TestModel::~TestModel() = default;
TestModel::TestModel(TestModel&&) noexcept = default;

TestModel& TestModel::input(const std::string& name, const Dims& dims, ir::DType t) {
  onnx::ValueInfoProto& v = *proto_->graph().add_input();
  describe(v, name, t);
  auto& shape = *v.mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const int64_t d : dims) {
    if (d < 0)
      shape.add_dim()->set_dim_param("N");
    else
      shape.add_dim()->set_dim_value(d);
  }
  return *this;
}

TestModel& TestModel::output(const std::string& name, ir::DType t) {
  describe(*proto_->graph().add_output(), name, t);
  return *this;
}

TestModel& TestModel::floats(const std::string& name,
                             const Dims& dims,
                             const std::vector<double>& v,
                             ir::DType t) {
  fill(*proto_->graph().add_initializer(), name, dims, number_of(t),
       text(host_of_floats(dims, v, t)));
  return *this;
}

TestModel& TestModel::ints(const std::string& name,
                           const Dims& dims,
                           const std::vector<int64_t>& v,
                           ir::DType t) {
  fill(*proto_->graph().add_initializer(), name, dims, number_of(t),
       text(host_of_ints(dims, v, t)));
  return *this;
}

TestModel& TestModel::node(const std::string& op,
                           const Names& in,
                           const Names& out,
                           const std::vector<Attr>& attrs,
                           const std::string& name,
                           const std::string& domain) {
  onnx::NodeProto& n = *proto_->graph().add_node();
  n.set_op_type(op);
  n.set_name(name);
  n.set_domain(domain);
  for (const std::string& s : in) n.add_input(s);
  for (const std::string& s : out) n.add_output(s);
  for (const Attr& a : attrs) {
    onnx::AttributeProto& p = *n.add_attribute();
    p.set_name(a.name);
    if (const auto* i = std::get_if<int64_t>(&a.value)) {
      p.set_type(onnx::AttributeProto::INT);
      p.set_i(*i);
    } else if (const auto* f = std::get_if<double>(&a.value)) {
      p.set_type(onnx::AttributeProto::FLOAT);
      p.set_f(static_cast<float>(*f));
    } else if (const auto* s = std::get_if<std::string>(&a.value)) {
      p.set_type(onnx::AttributeProto::STRING);
      p.set_s(*s);
    } else if (const auto* list = std::get_if<std::vector<int64_t>>(&a.value)) {
      p.set_type(onnx::AttributeProto::INTS);
      for (const int64_t v : *list) p.add_ints(v);
    } else {
      p.set_type(onnx::AttributeProto::FLOATS);
      for (const double v : std::get<std::vector<double>>(a.value))
        p.add_floats(static_cast<float>(v));
    }
  }
  return *this;
}

TestModel& TestModel::tensor_attr(const std::string& name,
                                  const Dims& dims,
                                  const std::vector<double>& v) {
  onnx::AttributeProto& p = *proto_->graph().mutable_node()->rbegin()->add_attribute();
  p.set_name(name);
  p.set_type(onnx::AttributeProto::TENSOR);
  fill(*p.mutable_t(), "", dims, number_of(ir::DType::kF32), text(host_of_floats(dims, v)));
  return *this;
}

TestModel& TestModel::graph_attr(const std::string& name) {
  onnx::AttributeProto& p = *proto_->graph().mutable_node()->rbegin()->add_attribute();
  p.set_name(name);
  p.set_type(onnx::AttributeProto::GRAPH);
  p.mutable_g()->set_name("inner");
  return *this;
}

TestModel& TestModel::raw(const std::string& name,
                          const Dims& dims,
                          int32_t type,
                          const std::string& bytes) {
  fill(*proto_->graph().add_initializer(), name, dims, type, bytes);
  return *this;
}

TestModel& TestModel::external(const std::string& name,
                               const Dims& dims,
                               const std::vector<std::pair<std::string, std::string>>& entries) {
  onnx::TensorProto& p = *proto_->graph().add_initializer();
  p.set_name(name);
  for (const int64_t d : dims) p.add_dims(d);
  p.set_data_type(onnx::TensorProto::FLOAT);
  p.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : entries) {
    auto& e = *p.add_external_data();
    e.set_key(key);
    e.set_value(value);
  }
  return *this;
}

TestModel& TestModel::metadata(const std::string& key, const std::string& value) {
  auto& e = *proto_->model.add_metadata_props();
  e.set_key(key);
  e.set_value(value);
  return *this;
}

std::vector<std::byte> TestModel::bytes() const {
  const std::string s = proto_->model.SerializeAsString();
  const auto raw = std::as_bytes(std::span<const char>(s.data(), s.size()));
  return {raw.begin(), raw.end()};
}

}  // namespace modeld::onnx_import
