#include "models/onnx/onnx_reader.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>

#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "hal/base/fs.h"

namespace modeld::onnx_import {
namespace {

constexpr int kMaxNesting = 64;
constexpr int kMaxNodes = 200'000;
constexpr int64_t kMaxElements = int64_t{1} << 31;

template <class T>
std::vector<std::byte> bytes_of(const T* data, size_t n) {
  const auto raw = std::as_bytes(std::span<const T>(data, n));
  return {raw.begin(), raw.end()};
}

// Typed fields hold narrow types as int32, one element each.
template <class Field>
std::vector<std::byte> narrowed(const Field& field, size_t item) {
  std::vector<std::byte> out(static_cast<size_t>(field.size()) * item);
  for (int i = 0; i < field.size(); ++i) {
    const auto v = field.Get(i);
    std::memcpy(out.data() + static_cast<size_t>(i) * item, &v, item);  // little endian
  }
  return out;
}

// A number in an external data entry.
Result<uint64_t> parse_number(const std::string& text, const std::string& what) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long v = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
    return fail(Errc::kInvalid, strf("%s '%s' is not a number", what.c_str(), text.c_str()));
  return static_cast<uint64_t>(v);
}

// The file of an external tensor: a relative path without "..", still inside the folder after links
// are followed.
Result<std::string> confined_path(const std::string& folder, const std::string& location) {
  if (location.empty() || location[0] == '/' || location.find('\0') != std::string::npos)
    return fail(Errc::kInvalid, strf("external data path '%s' is not relative", location.c_str()));
  for (size_t begin = 0; begin <= location.size();) {
    const size_t end = std::min(location.find('/', begin), location.size());
    if (location.substr(begin, end - begin) == "..")
      return fail(Errc::kInvalid,
                  strf("external data path '%s' leaves the model's folder", location.c_str()));
    begin = end + 1;
  }
  const std::string path = join_path(folder, location);
  char real_folder[PATH_MAX], real_path[PATH_MAX];
  if (realpath(path.c_str(), real_path) == nullptr)
    return fail_errno(Errc::kNotFound, strf("external data file %s", path.c_str()), errno);
  if (realpath(folder.c_str(), real_folder) == nullptr)
    return fail_errno(Errc::kNotFound, strf("model folder %s", folder.c_str()), errno);
  const std::string root = std::string(real_folder) == "/" ? "/" : std::string(real_folder) + "/";
  if (std::string(real_path).compare(0, root.size(), root) != 0)
    return fail(Errc::kInvalid,
                strf("external data path '%s' leaves the model's folder", location.c_str()));
  return std::string(real_path);
}

class Reader {
 public:
  Reader(std::string folder, std::string what)
      : folder_(std::move(folder)), what_(std::move(what)) {}

  Status read(const onnx::ModelProto& proto, OnnxModel& m);

 private:
  Status read_graph(const onnx::GraphProto& graph, OnnxModel& m);
  Result<OnnxNode> read_node(const onnx::NodeProto& p);
  Result<OnnxAttribute> read_attribute(const onnx::AttributeProto& p);
  Result<HostTensor> read_tensor(const onnx::TensorProto& p, const std::string& name);
  Result<std::vector<std::byte>> typed_data(const onnx::TensorProto& p,
                                            DType t,
                                            const std::string& name);
  Result<std::vector<std::byte>> external_data(const onnx::TensorProto& p,
                                               uint64_t want,
                                               const std::string& name);
  Result<OnnxValueInfo> read_value_info(const onnx::ValueInfoProto& p, const char* kind);
  tl::unexpected<Error> bad(const std::string& text, Errc code = Errc::kInvalid) const {
    return fail(code, what_ + ": " + text);
  }

  std::string folder_;
  std::string what_;
  std::map<std::string, std::vector<std::byte>> files_;  // external data, read once
};

Result<std::vector<std::byte>> Reader::typed_data(const onnx::TensorProto& p,
                                                  DType t,
                                                  const std::string& name) {
  const auto item = static_cast<size_t>(ir::item_size(t));
  switch (t) {
    case DType::kF32:
      return bytes_of(p.float_data().data(), static_cast<size_t>(p.float_data_size()));
    case DType::kF64:
      return bytes_of(p.double_data().data(), static_cast<size_t>(p.double_data_size()));
    case DType::kI64:
      return bytes_of(p.int64_data().data(), static_cast<size_t>(p.int64_data_size()));
    case DType::kU64:
    case DType::kU32:
      return narrowed(p.uint64_data(), item);
    case DType::kBool:
    case DType::kI8:
    case DType::kU8:
    case DType::kI16:
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16:
    case DType::kI32:
      return narrowed(p.int32_data(), item);
    default:
      return bad(strf("tensor '%s' has no readable data", name.c_str()));
  }
}

Result<std::vector<std::byte>> Reader::external_data(const onnx::TensorProto& p,
                                                     uint64_t want,
                                                     const std::string& name) {
  std::string location;
  uint64_t offset = 0;
  uint64_t length = want;
  for (const auto& e : p.external_data()) {
    if (e.key() == "location") location = e.value();
    if (e.key() == "offset") {
      ASSIGN_OR_RETURN(
          offset, parse_number(e.value(), what_ + ": tensor '" + name + "': external data offset"));
    }
    if (e.key() == "length") {
      ASSIGN_OR_RETURN(
          length, parse_number(e.value(), what_ + ": tensor '" + name + "': external data length"));
    }
  }
  const std::string where = strf("%s: tensor '%s'", what_.c_str(), name.c_str());
  if (folder_.empty())
    return fail(Errc::kNotFound, strf("%s lies in external file '%s', and no folder is given",
                                      where.c_str(), location.c_str()));
  auto path = confined_path(folder_, location);
  if (!path.ok()) return fail(std::move(path).error().with(where));
  if (files_.count(*path) == 0) {
    auto file = read_file(*path, kMaxModelBytes);
    if (!file.ok()) return fail(std::move(file).error().with(where));
    files_[*path] = std::move(*file);
  }
  const auto& file = files_[*path];
  if (length != want)
    return bad(strf("tensor '%s' needs %llu bytes, its external data has %llu", name.c_str(),
                    static_cast<unsigned long long>(want),
                    static_cast<unsigned long long>(length)));
  if (offset > file.size() || length > file.size() - offset) {
    return bad(
        strf("tensor '%s' ends at %llu in external file '%s' of %zu bytes", name.c_str(),
             static_cast<unsigned long long>(offset) + static_cast<unsigned long long>(length),
             location.c_str(), file.size()),
        Errc::kCorrupt);
  }
  const auto first = file.begin() + static_cast<int64_t>(offset);
  return std::vector<std::byte>(first, first + static_cast<int64_t>(length));
}

Result<HostTensor> Reader::read_tensor(const onnx::TensorProto& p, const std::string& name) {
  const auto dtype = onnx_dtype(p.data_type());
  if (!dtype)
    return bad(
        strf("tensor '%s' has data type %d, which is not supported", name.c_str(), p.data_type()),
        Errc::kUnsupported);
  if (p.has_segment())
    return bad(strf("tensor '%s' is stored in segments", name.c_str()), Errc::kUnsupported);
  if (p.dims_size() > kMaxRank)
    return bad(strf("tensor '%s' has %d axes, at most %d are supported", name.c_str(),
                    p.dims_size(), kMaxRank));
  HostTensor t{*dtype, {}, {}};
  int64_t count = 1;
  for (const int64_t d : p.dims()) {
    if (d < 0 || __builtin_mul_overflow(count, d, &count) || count > kMaxElements)
      return bad(strf("tensor '%s' has a bad size", name.c_str()));
    t.dims.push_back(d);
  }
  const uint64_t want = static_cast<uint64_t>(count) * static_cast<uint64_t>(ir::item_size(*dtype));
  if (p.data_location() == onnx::TensorProto::EXTERNAL) {
    ASSIGN_OR_RETURN(t.bytes, external_data(p, want, name));
  } else if (p.has_raw_data()) {
    t.bytes = bytes_of(p.raw_data().data(), p.raw_data().size());
  } else {
    ASSIGN_OR_RETURN(t.bytes, typed_data(p, *dtype, name));
  }
  if (t.bytes.size() != want)
    return bad(strf("tensor '%s' needs %llu bytes, %zu are there", name.c_str(),
                    static_cast<unsigned long long>(want), t.bytes.size()),
               Errc::kCorrupt);
  if (*dtype == DType::kBool) {
    for (std::byte& b : t.bytes) b = b == std::byte{0} ? b : std::byte{1};
  }
  return t;
}

Result<OnnxAttribute> Reader::read_attribute(const onnx::AttributeProto& p) {
  using Kind = OnnxAttribute::Kind;
  OnnxAttribute a;
  a.f = p.f();
  a.i = p.i();
  a.s = p.s();
  a.floats.assign(p.floats().begin(), p.floats().end());
  a.ints.assign(p.ints().begin(), p.ints().end());
  a.strings.assign(p.strings().begin(), p.strings().end());
  switch (p.type()) {
    case onnx::AttributeProto::FLOAT:
      a.kind = Kind::kFloat;
      break;
    case onnx::AttributeProto::INT:
      a.kind = Kind::kInt;
      break;
    case onnx::AttributeProto::STRING:
      a.kind = Kind::kString;
      break;
    case onnx::AttributeProto::FLOATS:
      a.kind = Kind::kFloats;
      break;
    case onnx::AttributeProto::INTS:
      a.kind = Kind::kInts;
      break;
    case onnx::AttributeProto::STRINGS:
      a.kind = Kind::kStrings;
      break;
    case onnx::AttributeProto::TENSOR: {
      a.kind = Kind::kTensor;
      ASSIGN_OR_RETURN(HostTensor t, read_tensor(p.t(), p.name()));
      a.tensor = std::make_shared<const HostTensor>(std::move(t));
      break;
    }
    default:
      a.kind = Kind::kOther;
      break;
  }
  return a;
}

Result<OnnxNode> Reader::read_node(const onnx::NodeProto& p) {
  OnnxNode n;
  n.name = p.name();
  n.op = p.op_type();
  n.domain = p.domain() == "ai.onnx" ? "" : p.domain();
  n.inputs.assign(p.input().begin(), p.input().end());
  n.outputs.assign(p.output().begin(), p.output().end());
  while (!n.inputs.empty() && n.inputs.back().empty()) n.inputs.pop_back();
  for (const auto& a : p.attribute()) {
    if (!a.ref_attr_name().empty())
      return bad(strf("node '%s' (%s): attribute '%s' refers to a function", n.name.c_str(),
                      n.op.c_str(), a.name().c_str()),
                 Errc::kUnsupported);
    ASSIGN_OR_RETURN(OnnxAttribute value, read_attribute(a));
    if (!n.attributes.emplace(a.name(), std::move(value)).second)
      return bad(strf("node '%s' (%s): attribute '%s' is there twice", n.name.c_str(), n.op.c_str(),
                      a.name().c_str()));
  }
  return n;
}

Result<OnnxValueInfo> Reader::read_value_info(const onnx::ValueInfoProto& p, const char* kind) {
  OnnxValueInfo v;
  v.name = p.name();
  if (!p.type().has_tensor_type())
    return bad(strf("%s '%s' is not a tensor", kind, p.name().c_str()), Errc::kUnsupported);
  const auto& type = p.type().tensor_type();
  const auto dtype = onnx_dtype(type.elem_type());
  if (!dtype)
    return bad(strf("%s '%s' has data type %d, which is not supported", kind, p.name().c_str(),
                    type.elem_type()),
               Errc::kUnsupported);
  v.dtype = *dtype;
  v.has_shape = type.has_shape();
  if (type.shape().dim_size() > kMaxRank)
    return bad(strf("%s '%s' has %d axes, at most %d are supported", kind, p.name().c_str(),
                    type.shape().dim_size(), kMaxRank));
  for (const auto& d : type.shape().dim()) {
    OnnxDim dim;
    if (d.has_dim_value() && d.dim_value() >= 0) dim.value = d.dim_value();
    if (d.has_dim_param()) dim.param = d.dim_param();
    v.dims.push_back(dim);
  }
  return v;
}

Status Reader::read_graph(const onnx::GraphProto& graph, OnnxModel& m) {
  if (graph.node_size() > kMaxNodes)
    return bad(strf("%d nodes, at most %d are supported", graph.node_size(), kMaxNodes));
  if (graph.sparse_initializer_size() > 0)
    return bad("sparse initialisers are not supported", Errc::kUnsupported);
  for (const auto& t : graph.initializer()) {
    ASSIGN_OR_RETURN(HostTensor value, read_tensor(t, t.name()));
    if (!m.initialisers.emplace(t.name(), std::make_shared<const HostTensor>(std::move(value)))
             .second)
      return bad(strf("initialiser '%s' is there twice", t.name().c_str()));
  }
  for (const auto& n : graph.node()) {
    ASSIGN_OR_RETURN(OnnxNode node, read_node(n));
    m.nodes.push_back(std::move(node));
  }
  for (const auto& v : graph.input()) {
    ASSIGN_OR_RETURN(OnnxValueInfo info, read_value_info(v, "input"));
    m.inputs.push_back(std::move(info));
  }
  for (const auto& v : graph.output()) {
    ASSIGN_OR_RETURN(OnnxValueInfo info, read_value_info(v, "output"));
    m.outputs.push_back(std::move(info));
  }
  if (m.outputs.empty()) return bad("the graph has no outputs");
  return {};
}

Status Reader::read(const onnx::ModelProto& proto, OnnxModel& m) {
  for (const auto& o : proto.opset_import()) {
    if (o.domain().empty() || o.domain() == "ai.onnx") m.opset = o.version();
  }
  if (!proto.has_graph() || m.opset == 0)
    return bad("not an ONNX model: no graph or no opset", Errc::kCorrupt);
  if (proto.functions_size() > 0)
    return bad("model-local functions are not supported", Errc::kUnsupported);
  m.producer = proto.producer_name();
  for (const auto& e : proto.metadata_props()) {
    if (!m.metadata.emplace(e.key(), e.value()).second)
      return bad(strf("metadata '%s' is there twice", e.key().c_str()));
  }
  return read_graph(proto.graph(), m);
}

// Protobuf reports on stderr by itself; our one line is the Status.
void silent(google::protobuf::LogLevel, const char*, int, const std::string&) {}

Status parse(std::span<const std::byte> bytes, onnx::ModelProto& proto, const std::string& what) {
  if (bytes.size() >= kMaxModelBytes)
    return fail(Errc::kInvalid, strf("%s: %zu bytes, the limit is 2 GiB (use external data)",
                                     what.c_str(), bytes.size()));
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  google::protobuf::io::CodedInputStream in(data, static_cast<int>(bytes.size()));
  in.SetRecursionLimit(kMaxNesting);
  in.SetTotalBytesLimit(INT_MAX);
  auto* const old = google::protobuf::SetLogHandler(silent);
  const bool good = proto.ParseFromCodedStream(&in) && in.ConsumedEntireMessage();
  google::protobuf::SetLogHandler(old);
  if (!good)
    return fail(Errc::kCorrupt,
                strf("%s: not an ONNX file, or damaged (%zu bytes)", what.c_str(), bytes.size()));
  return {};
}

}  // namespace

std::optional<DType> onnx_dtype(int64_t number) {
  switch (number) {
    case onnx::TensorProto::FLOAT:
      return DType::kF32;
    case onnx::TensorProto::UINT8:
      return DType::kU8;
    case onnx::TensorProto::INT8:
      return DType::kI8;
    case onnx::TensorProto::UINT16:
      return DType::kU16;
    case onnx::TensorProto::INT16:
      return DType::kI16;
    case onnx::TensorProto::INT32:
      return DType::kI32;
    case onnx::TensorProto::INT64:
      return DType::kI64;
    case onnx::TensorProto::BOOL:
      return DType::kBool;
    case onnx::TensorProto::FLOAT16:
      return DType::kF16;
    case onnx::TensorProto::DOUBLE:
      return DType::kF64;
    case onnx::TensorProto::UINT32:
      return DType::kU32;
    case onnx::TensorProto::UINT64:
      return DType::kU64;
    case onnx::TensorProto::BFLOAT16:
      return DType::kBF16;
    default:
      return std::nullopt;
  }
}

Result<OnnxModel> read_onnx(std::span<const std::byte> bytes,
                            const std::string& folder,
                            const std::string& what) {
  onnx::ModelProto proto;
  RETURN_IF_ERROR(parse(bytes, proto, what));
  OnnxModel m;
  RETURN_IF_ERROR(Reader(folder, what).read(proto, m));
  m.sha256 = sha256(bytes);
  return m;
}

}  // namespace modeld::onnx_import
