#include "models/onnx/op_context.h"

#include <algorithm>
#include <cstring>

namespace modeld::onnx_import {

Value value_of(HostPtr host) {
  Value v;
  v.dtype = host->dtype;
  v.dims = host->dims;
  v.host = std::move(host);
  return v;
}

Value value_of(const Tensor& t) {
  Value v;
  v.tensor = t;
  v.dtype = t.dtype();
  v.dims = t.dims();
  return v;
}

Tensor materialise(ir::Graph& g,
                   tensor::WeightStore& store,
                   const HostTensor& host,
                   const std::string& device) {
  const auto item = static_cast<size_t>(ir::item_size(host.dtype));
  const auto* bytes = host.bytes.data();
  // Equal to itself shifted by one element: all are the same.
  const bool uniform =
      host.bytes.size() >= item && std::memcmp(bytes, bytes + item, host.bytes.size() - item) == 0;
  if (!uniform) return Tensor::from_data(g, store, host.bytes, host.dims, host.dtype, device);
  const HostTensor one{host.dtype, {}, {bytes, bytes + item}};
  const auto constant = ir::is_float(host.dtype) ? Tensor::constant(g, one.doubles()[0], host.dtype)
                                                 : Tensor::constant(g, one.ints()[0], host.dtype);
  return constant.expand(host.dims);
}

std::string node_text(const OnnxNode& n, int64_t opset) {
  const std::string op = (n.domain.empty() ? "" : n.domain + ".") + n.op;
  const std::string name = !n.name.empty()
                               ? "'" + n.name + "'"
                               : (n.outputs.empty() ? "''" : "giving '" + n.outputs[0] + "'");
  return strf("node %s (%s, opset %lld)", name.c_str(), op.c_str(), static_cast<long long>(opset));
}

// ---- inputs ----

Tensor OpContext::in(size_t i) {
  if (!has(i)) {
    error(strf("input %zu is missing", i));
    return {g, ir::const_float(g, 0.0, DType::kF32)};
  }
  Value& v = inputs_[i];
  if (!v.tensor.valid()) v.tensor = materialise(g, store, *v.host, device);
  return v.tensor;
}

Dims OpContext::dims(size_t i) {
  if (!has(i)) error(strf("input %zu is missing", i));
  return has(i) ? inputs_[i].dims : Dims{};
}

DType OpContext::dtype(size_t i) {
  if (!has(i)) error(strf("input %zu is missing", i));
  return has(i) ? inputs_[i].dtype : DType::kF32;
}

std::vector<int64_t> OpContext::host_ints(size_t i, const char* what) {
  const HostPtr h = host(i);
  if (h != nullptr && !ir::is_float(h->dtype)) return h->ints();
  if (h != nullptr)
    error(
        strf("input %zu (%s) has type %s, integers are needed", i, what, ir::dtype_name(h->dtype)));
  else
    error(strf("input %zu (%s) must be constant after binding the input shapes", i, what),
          has(i) ? Errc::kUnsupported : Errc::kInvalid);
  return {};
}

std::vector<double> OpContext::host_doubles(size_t i, const char* what) {
  const HostPtr h = host(i);
  if (h == nullptr)
    error(strf("input %zu (%s) must be constant after binding the input shapes", i, what),
          Errc::kUnsupported);
  return h == nullptr ? std::vector<double>{} : h->doubles();
}

double OpContext::host_scalar(size_t i, const char* what) {
  const auto v = host_doubles(i, what);
  if (v.size() != 1 && !problem_)
    error(strf("input %zu (%s) must be one number, it has %zu", i, what, v.size()));
  return v.size() == 1 ? v[0] : 0;
}

bool OpContext::require_float(size_t i) {
  if (ir::is_float(dtype(i))) return true;
  error(strf("input %zu has type %s, a float type is needed", i, ir::dtype_name(dtype(i))),
        Errc::kMismatch);
  return false;
}

bool OpContext::require_same_dtype(size_t first, size_t last) {
  for (size_t i = first; i <= last && i < inputs_.size(); ++i) {
    if (!has(i) || dtype(i) == dtype(first)) continue;
    error(strf("inputs %zu and %zu have types %s and %s", first, i, ir::dtype_name(dtype(first)),
               ir::dtype_name(dtype(i))),
          Errc::kMismatch);
    return false;
  }
  return true;
}

// ---- attributes ----

const OnnxAttribute* OpContext::find(const char* name, OnnxAttribute::Kind kind) {
  used_.insert(name);
  const auto it = node.attributes.find(name);
  if (it == node.attributes.end()) return nullptr;
  if (it->second.kind == kind) return &it->second;
  error(strf("attribute '%s' has the wrong type", name));
  return nullptr;
}

int64_t OpContext::attr_int(const char* name, int64_t fallback) {
  const auto* a = find(name, OnnxAttribute::Kind::kInt);
  return a == nullptr ? fallback : a->i;
}

double OpContext::attr_float(const char* name, double fallback) {
  const auto* a = find(name, OnnxAttribute::Kind::kFloat);
  return a == nullptr ? fallback : static_cast<double>(a->f);
}

std::string OpContext::attr_string(const char* name, const std::string& fallback) {
  const auto* a = find(name, OnnxAttribute::Kind::kString);
  return a == nullptr ? fallback : a->s;
}

Dims OpContext::attr_ints(const char* name, const Dims& fallback) {
  const auto* a = find(name, OnnxAttribute::Kind::kInts);
  return a == nullptr ? fallback : a->ints;
}

std::vector<float> OpContext::attr_floats(const char* name) {
  const auto* a = find(name, OnnxAttribute::Kind::kFloats);
  return a == nullptr ? std::vector<float>{} : a->floats;
}

HostPtr OpContext::attr_tensor(const char* name) {
  const auto* a = find(name, OnnxAttribute::Kind::kTensor);
  return a == nullptr ? nullptr : a->tensor;
}

// ---- outputs ----

void OpContext::out(size_t i, Tensor t) {
  if (i >= outputs_.size() || g.failed() || problem_) return;
  outputs_[i] = value_of(t);
}

void OpContext::out_host(HostTensor t) {
  if (!outputs_.empty()) outputs_[0] = value_of(std::make_shared<const HostTensor>(std::move(t)));
}

void OpContext::error(const std::string& text, Errc code) {
  // Through fail(): names from the file must not break the line.
  if (!problem_) problem_ = fail(code, node_text(node, opset) + ": " + text).value();
}

Status OpContext::status() {
  if (!problem_ && g.failed()) {
    const Error e = g.status().error();
    error(e.what, e.code);
  }
  for (const auto& [name, value] : node.attributes) {
    if (used_.count(name) == 0)
      error(strf("unknown attribute '%s'", name.c_str()), Errc::kUnsupported);
  }
  if (problem_) return fail(*problem_);
  return {};
}

}  // namespace modeld::onnx_import
