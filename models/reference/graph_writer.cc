#include "models/reference/graph_writer.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>

#include "hal/base/check.h"

namespace modeld::reference {

static_assert(std::endian::native == std::endian::little, "ONNX raw_data is little endian");

struct GraphWriter::Proto {
  onnx::ModelProto model;
  onnx::NodeProto* last = nullptr;  // node that attribute() writes to
  onnx::GraphProto* graph() { return model.mutable_graph(); }
};

namespace {

constexpr int64_t kOpset = 17;
constexpr int64_t kIrVersion = 8;  // the IR version that came with opset 17

int onnx_type(Elem elem) {
  switch (elem) {
    case Elem::kF32:
      return onnx::TensorProto::FLOAT;
    case Elem::kF16:
      return onnx::TensorProto::FLOAT16;
    case Elem::kU8:
      return onnx::TensorProto::UINT8;
    case Elem::kI64:
      return onnx::TensorProto::INT64;
  }
  return onnx::TensorProto::UNDEFINED;
}

void describe(onnx::ValueInfoProto* info, const Value& value) {
  info->set_name(value.name);
  auto* type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx_type(value.elem));
  for (const int64_t dim : value.dims) type->mutable_shape()->add_dim()->set_dim_value(dim);
}

// Numpy broadcasting of two shapes.
Dims broadcast(const Dims& a, const Dims& b) {
  const size_t rank = std::max(a.size(), b.size());
  Dims out(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t left = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    const int64_t right = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    CHECK(left == right || left == 1 || right == 1);
    out[i] = std::max(left, right);
  }
  return out;
}

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

int64_t element_count(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

uint16_t half_from_float(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);  // NaN
  if (magnitude >= 0x477ff000u)
    return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and up round to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14: subnormal, in units of 2^-24; the scaling is exact and the conversion rounds
    // half to even.
    float scaled = 0;
    std::memcpy(&scaled, &magnitude, sizeof scaled);
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(scaled * 0x1p24f)));
  }
  const uint32_t rebased = magnitude - (112u << 23);
  const uint32_t rounded = rebased + 0xfffu + ((rebased >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

GraphWriter::GraphWriter(const std::string& graph_name, Elem float_elem, uint64_t seed)
    : proto_(std::make_unique<Proto>()), float_elem_(float_elem), seed_(seed) {
  onnx::ModelProto& model = proto_->model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("modelc reference");
  model.set_doc_string(
      "Stand-in with random weights: the interface of a driving model, none of its knowledge.");
  auto* opset = model.add_opset_import();
  opset->set_domain("");
  opset->set_version(kOpset);
  proto_->graph()->set_name(graph_name);
}

GraphWriter::~GraphWriter() = default;

Value GraphWriter::input(const std::string& name, const Dims& dims, Elem elem) {
  const Value value{name, dims, elem};
  describe(proto_->graph()->add_input(), value);
  return value;
}

void GraphWriter::output(const std::string& name, const Value& value) {
  onnx::NodeProto* producer = nullptr;
  for (auto& node : *proto_->graph()->mutable_node()) {
    for (const std::string& used : node.input()) CHECK(used != value.name);
    if (node.output(0) == value.name) producer = &node;
  }
  CHECK(producer != nullptr);
  producer->set_output(0, name);
  describe(proto_->graph()->add_output(), Value{name, value.dims, value.elem});
}

uint64_t GraphWriter::next_random() {
  state_ += 0x9e3779b97f4a7c15ULL;
  return mix(state_);
}

std::string GraphWriter::pack(std::span<const float> values) const {
  std::string raw;
  if (float_elem_ == Elem::kF32) {
    raw.assign(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    return raw;
  }
  raw.resize(values.size() * sizeof(uint16_t));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = half_from_float(values[i]);
    std::memcpy(raw.data() + i * sizeof half, &half, sizeof half);
  }
  return raw;
}

Value GraphWriter::tensor(const std::string& name,
                          const Dims& dims,
                          Elem elem,
                          const std::string& raw) {
  onnx::TensorProto* proto = proto_->graph()->add_initializer();
  proto->set_name(name);
  proto->set_data_type(onnx_type(elem));
  for (const int64_t dim : dims) proto->add_dims(dim);
  proto->set_raw_data(raw);
  return Value{name, dims, elem};
}

Value GraphWriter::weight(const std::string& name,
                          const Dims& dims,
                          double deviation,
                          double mean) {
  state_ = mix(seed_ ^ mix(++tensors_));
  // A uniform number in [-1, 1) has deviation 1/sqrt(3).
  const double width = deviation * std::sqrt(3.0);
  std::vector<float> values(static_cast<size_t>(element_count(dims)));
  for (float& value : values) {
    const auto signed_bits = static_cast<int64_t>(next_random() >> 40) - (int64_t{1} << 23);
    value = static_cast<float>(mean + width * static_cast<double>(signed_bits) * 0x1p-23);
  }
  figures_.parameters += values.size();
  return tensor(name, dims, float_elem_, pack(values));
}

Value GraphWriter::scalar(const std::string& name, double value) {
  const float narrowed = static_cast<float>(value);
  return tensor(name, {}, float_elem_, pack({&narrowed, 1}));
}

Value GraphWriter::ints(const std::string& name, const Dims& values) {
  const std::string raw(reinterpret_cast<const char*>(values.data()),
                        values.size() * sizeof(int64_t));
  return tensor(name, {static_cast<int64_t>(values.size())}, Elem::kI64, raw);
}

Value GraphWriter::node(const char* op,
                        const std::string& name,
                        const std::vector<Value>& inputs,
                        Dims dims,
                        Elem elem) {
  onnx::NodeProto* proto = proto_->graph()->add_node();
  proto->set_op_type(op);
  proto->set_name(name);
  for (const Value& input : inputs) proto->add_input(input.name);
  Value result{name + ":0", std::move(dims), elem};
  proto->add_output(result.name);
  proto_->last = proto;
  ++figures_.op_counts[op];
  return result;
}

void GraphWriter::attribute(const char* name, int64_t value) {
  auto* proto = proto_->last->add_attribute();
  proto->set_name(name);
  proto->set_type(onnx::AttributeProto::INT);
  proto->set_i(value);
}

void GraphWriter::attribute(const char* name, const Dims& values) {
  auto* proto = proto_->last->add_attribute();
  proto->set_name(name);
  proto->set_type(onnx::AttributeProto::INTS);
  for (const int64_t value : values) proto->add_ints(value);
}

void GraphWriter::attribute(const char* name, float value) {
  auto* proto = proto_->last->add_attribute();
  proto->set_name(name);
  proto->set_type(onnx::AttributeProto::FLOAT);
  proto->set_f(value);
}

Value GraphWriter::conv(const std::string& name, const Value& x, const ConvSpec& spec) {
  CHECK(x.dims.size() == 4 && x.dims[1] % spec.groups == 0 && spec.out_channels % spec.groups == 0);
  const int64_t in_per_group = x.dims[1] / spec.groups;
  const int64_t fan_in = in_per_group * spec.kernel * spec.kernel;
  const int64_t height = (x.dims[2] + 2 * spec.padding - spec.kernel) / spec.stride + 1;
  const int64_t width = (x.dims[3] + 2 * spec.padding - spec.kernel) / spec.stride + 1;
  const Value w =
      weight(name + ".weight", {spec.out_channels, in_per_group, spec.kernel, spec.kernel},
             spec.gain / std::sqrt(static_cast<double>(fan_in)));
  const Value b = weight(name + ".bias", {spec.out_channels}, 0.02);
  const Value y = node("Conv", name, {x, w, b}, {1, spec.out_channels, height, width}, x.elem);
  attribute("kernel_shape", Dims{spec.kernel, spec.kernel});
  attribute("strides", Dims{spec.stride, spec.stride});
  attribute("pads", Dims{spec.padding, spec.padding, spec.padding, spec.padding});
  attribute("group", spec.groups);
  figures_.mac += static_cast<uint64_t>(element_count(y.dims) * fan_in);
  return y;
}

Value GraphWriter::gemm(
    const std::string& name, const Value& x, int64_t out_features, double gain, double bias) {
  CHECK(x.dims.size() == 2);
  const int64_t fan_in = x.dims[1];
  const Value w = weight(name + ".weight", {out_features, fan_in},
                         gain / std::sqrt(static_cast<double>(fan_in)));
  const Value b = weight(name + ".bias", {out_features}, bias);
  const Value y = node("Gemm", name, {x, w, b}, {x.dims[0], out_features}, x.elem);
  attribute("transB", int64_t{1});
  figures_.mac += static_cast<uint64_t>(element_count(y.dims) * fan_in);
  return y;
}

Value GraphWriter::matmul(const std::string& name, const Value& a, const Value& b) {
  const size_t rank = std::max(a.dims.size(), b.dims.size());
  CHECK(a.dims.size() >= 2 && b.dims.size() >= 2);
  CHECK(a.dims.back() == b.dims[b.dims.size() - 2]);
  Dims batch =
      broadcast(Dims(a.dims.begin(), a.dims.end() - 2), Dims(b.dims.begin(), b.dims.end() - 2));
  batch.push_back(a.dims[a.dims.size() - 2]);
  batch.push_back(b.dims.back());
  CHECK(batch.size() == rank);
  figures_.mac += static_cast<uint64_t>(element_count(batch) * a.dims.back());
  return node("MatMul", name, {a, b}, batch, a.elem);
}

Value GraphWriter::binary(const char* op, const std::string& name, const Value& a, const Value& b) {
  CHECK(a.elem == b.elem);
  Dims dims = broadcast(a.dims, b.dims);
  figures_.elementwise += static_cast<uint64_t>(element_count(dims));
  return node(op, name, {a, b}, std::move(dims), a.elem);
}

Value GraphWriter::unary(const char* op, const std::string& name, const Value& x) {
  figures_.elementwise += static_cast<uint64_t>(element_count(x.dims));
  return node(op, name, {x}, x.dims, x.elem);
}

Value GraphWriter::clip(const std::string& name, const Value& x, double low, double high) {
  const Value lowest = scalar(name + ".min", low);
  const Value highest = scalar(name + ".max", high);
  figures_.elementwise += static_cast<uint64_t>(element_count(x.dims));
  return node("Clip", name, {x, lowest, highest}, x.dims, x.elem);
}

Value GraphWriter::cast(const std::string& name, const Value& x) {
  figures_.elementwise += static_cast<uint64_t>(element_count(x.dims));
  const Value y = node("Cast", name, {x}, x.dims, float_elem_);
  attribute("to", int64_t{onnx_type(float_elem_)});
  return y;
}

Value GraphWriter::softmax(const std::string& name, const Value& x) {
  figures_.elementwise += 3 * static_cast<uint64_t>(element_count(x.dims));
  const Value y = node("Softmax", name, {x}, x.dims, x.elem);
  attribute("axis", int64_t{-1});
  return y;
}

Value GraphWriter::layer_norm(const std::string& name, const Value& x) {
  const Value scale = weight(name + ".scale", {x.dims.back()}, 0.05, 1.0);
  const Value bias = weight(name + ".bias", {x.dims.back()}, 0.05);
  figures_.elementwise += 6 * static_cast<uint64_t>(element_count(x.dims));
  const Value y = node("LayerNormalization", name, {x, scale, bias}, x.dims, x.elem);
  attribute("axis", int64_t{-1});
  attribute("epsilon", 1e-5f);
  return y;
}

Value GraphWriter::pool(const char* op,
                        const std::string& name,
                        const Value& x,
                        int64_t kernel,
                        int64_t stride,
                        int64_t padding) {
  CHECK(x.dims.size() == 4);
  const int64_t height = (x.dims[2] + 2 * padding - kernel) / stride + 1;
  const int64_t width = (x.dims[3] + 2 * padding - kernel) / stride + 1;
  const Value y = node(op, name, {x}, {1, x.dims[1], height, width}, x.elem);
  attribute("kernel_shape", Dims{kernel, kernel});
  attribute("strides", Dims{stride, stride});
  attribute("pads", Dims{padding, padding, padding, padding});
  figures_.elementwise += static_cast<uint64_t>(element_count(y.dims) * kernel * kernel);
  return y;
}

Value GraphWriter::global_average_pool(const std::string& name, const Value& x) {
  CHECK(x.dims.size() == 4);
  figures_.elementwise += static_cast<uint64_t>(element_count(x.dims));
  return node("GlobalAveragePool", name, {x}, {x.dims[0], x.dims[1], 1, 1}, x.elem);
}

Value GraphWriter::reduce_max_all(const std::string& name, const Value& x) {
  Dims axes(x.dims.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  figures_.elementwise += static_cast<uint64_t>(element_count(x.dims));
  const Value y = node("ReduceMax", name, {x}, Dims(x.dims.size(), 1), x.elem);
  attribute("axes", axes);
  attribute("keepdims", int64_t{1});
  return y;
}

Value GraphWriter::reshape(const std::string& name, const Value& x, const Dims& dims) {
  CHECK(element_count(dims) == element_count(x.dims));
  const Value shape = ints(name + ".shape", dims);
  return node("Reshape", name, {x, shape}, dims, x.elem);
}

Value GraphWriter::flatten(const std::string& name, const Value& x) {
  CHECK(!x.dims.empty());
  const Value y =
      node("Flatten", name, {x}, {x.dims[0], element_count(x.dims) / x.dims[0]}, x.elem);
  attribute("axis", int64_t{1});
  return y;
}

Value GraphWriter::transpose(const std::string& name, const Value& x, const Dims& order) {
  CHECK(order.size() == x.dims.size());
  Dims dims;
  for (const int64_t axis : order) dims.push_back(x.dims[static_cast<size_t>(axis)]);
  const Value y = node("Transpose", name, {x}, std::move(dims), x.elem);
  attribute("perm", order);
  return y;
}

Value GraphWriter::concat(const std::string& name, const std::vector<Value>& parts, int64_t axis) {
  CHECK(!parts.empty());
  Dims dims = parts[0].dims;
  const auto along = static_cast<size_t>(axis);
  for (size_t i = 1; i < parts.size(); ++i) {
    CHECK(parts[i].dims.size() == dims.size() && parts[i].elem == parts[0].elem);
    for (size_t d = 0; d < dims.size(); ++d) CHECK(d == along || parts[i].dims[d] == dims[d]);
    dims[along] += parts[i].dims[along];
  }
  const Value y = node("Concat", name, parts, std::move(dims), parts[0].elem);
  attribute("axis", axis);
  return y;
}

Value GraphWriter::slice(
    const std::string& name, const Value& x, int64_t axis, int64_t begin, int64_t end) {
  const auto along = static_cast<size_t>(axis);
  CHECK(along < x.dims.size() && begin >= 0 && begin < end && end <= x.dims[along]);
  Dims dims = x.dims;
  dims[along] = end - begin;
  const Value starts = ints(name + ".starts", {begin});
  const Value ends = ints(name + ".ends", {end});
  const Value axes = ints(name + ".axes", {axis});
  return node("Slice", name, {x, starts, ends, axes}, std::move(dims), x.elem);
}

Result<ReferenceModel> GraphWriter::finish(std::vector<Slice> slices, int context_frames) {
  std::string text = "{";
  for (const Slice& slice : slices) {
    if (text.size() > 1) text += ",";
    text += "\"" + slice.name + "\":[" + std::to_string(slice.begin) + "," +
            std::to_string(slice.end) + "]";
  }
  text += "}";
  const std::pair<const char*, std::string> metadata[] = {
      {"modeld.slices", text}, {"modeld.context_frames", std::to_string(context_frames)}};
  for (const auto& [key, value] : metadata) {
    auto* entry = proto_->model.add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  }
  ReferenceModel result = figures_;
  result.slices = std::move(slices);
  result.context_frames = context_frames;
  try {
    google::protobuf::io::StringOutputStream stream(&result.onnx);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    if (!proto_->model.SerializeToCodedStream(&coded)) {
      return fail(Errc::kInternal, "reference model: protobuf could not serialise the graph");
    }
  } catch (const std::exception& e) {
    return fail(Errc::kInternal, strf("reference model: serialising failed: %s", e.what()));
  }
  return result;
}

}  // namespace modeld::reference
