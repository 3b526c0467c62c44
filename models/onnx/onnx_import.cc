#include "models/onnx/onnx_import.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "hal/base/fs.h"
#include "hal/base/json.h"

#include "runtime/ir/derived.h"
#include "runtime/ir/spec.h"
#include "runtime/tensor/host_eval.h"

#include "models/onnx/onnx_ops.h"
#include "models/onnx/onnx_reader.h"
#include "models/onnx/op_context.h"

namespace modeld::onnx_import {
namespace {

constexpr OpRow kRows[] = {
#define ONNX_OP(name, since, until, min_inputs, max_inputs, build) \
  {#name, since, until, min_inputs, max_inputs, build},
#include "models/onnx/onnx_ops.def"
#undef ONNX_OP
};

constexpr int64_t kFirstOpset = 7;
constexpr int64_t kLastOpset = 17;
constexpr int64_t kFoldInput = int64_t{1} << 22;  // elements a folded op may read
constexpr int64_t kFoldStep = int64_t{1} << 24;   // and hold on the way
constexpr int64_t kFoldOutput = int64_t{1}
                                << 16;  // and write, unless that is not more than it read

std::string dim_text(const OnnxDim& d) {
  return d.value ? std::to_string(*d.value) : (d.param.empty() ? "?" : "'" + d.param + "'");
}

// Evaluating a node list on the host holds every value densely: none may be large.
bool evaluates_cheaply(ir::Graph& g, const Tensor& t) {
  for (const ir::Node* n : ir::toposort(t.node())) {
    if (tensor::product(ir::dims(g, n)) > kFoldStep) return false;
  }
  return true;
}

class Importer {
 public:
  Importer(ir::Graph& g, const ImportOptions& options, OnnxModel model, std::string what)
      : g_(g), options_(options), model_(std::move(model)), what_(std::move(what)) {}

  Result<ImportedModel> run();

 private:
  Status bind_inputs();
  Result<Dims> input_dims(const OnnxValueInfo& v);
  Status index_nodes();
  Result<std::vector<size_t>> sort_nodes();
  Status build_node(const OnnxNode& n);
  Result<std::vector<Value>> node_inputs(const OnnxNode& n);
  Status check_row(const OnnxNode& n, const OpRow*& row);
  Result<bool> fold(const OnnxNode& n, const OpRow& row, const std::vector<Value>& inputs);
  Status publish(const OnnxNode& n, std::vector<Value> results);
  Status make_outputs();
  Result<Tensor> stored(const Value& v, const std::string& name);
  Status read_metadata();
  tl::unexpected<Error> bad(const std::string& text, Errc code = Errc::kInvalid) const {
    return fail(code, what_ + ": " + text);
  }

  ir::Graph& g_;
  const ImportOptions& options_;
  OnnxModel model_;
  std::string what_;
  ImportedModel out_;
  std::map<std::string, Value> values_;
  std::map<std::string, size_t> producer_;  // value name -> node
  std::map<std::string, int64_t> params_;   // named dims bound so far
};

// ---- inputs ----

// Static dims of an input: the file's, with the free ones bound by --shape or by the same name
// elsewhere.
Result<Dims> Importer::input_dims(const OnnxValueInfo& v) {
  const auto it = options_.shapes.find(v.name);
  const Dims* bound = it == options_.shapes.end() ? nullptr : &it->second;
  if (!v.has_shape && bound == nullptr)
    return bad(strf("input '%s' has no shape: bind it with --shape %s=...", v.name.c_str(),
                    v.name.c_str()));
  if (!v.has_shape) return *bound;
  std::string want;
  for (const OnnxDim& d : v.dims) want += (want.empty() ? "" : "x") + dim_text(d);
  if (bound != nullptr && bound->size() != v.dims.size()) {
    return bad(strf("--shape %s=%s has %zu dims, the input is %s", v.name.c_str(),
                    tensor::dims_text(*bound).c_str(), bound->size(), want.c_str()),
               Errc::kMismatch);
  }
  Dims out;
  for (size_t i = 0; i < v.dims.size(); ++i) {
    const OnnxDim& d = v.dims[i];
    const auto named = d.param.empty() ? params_.end() : params_.find(d.param);
    if (bound != nullptr) {
      const int64_t b = (*bound)[i];
      const bool fixed = d.value && *d.value != b;
      const bool clash = !d.value && named != params_.end() && named->second != b;
      if (b < 1 || fixed || clash) {
        return bad(strf("--shape %s=%s: dimension %zu is %lld, the input is %s%s", v.name.c_str(),
                        tensor::dims_text(*bound).c_str(), i, static_cast<long long>(b),
                        want.c_str(), clash ? " and that name is bound to another number" : ""),
                   Errc::kMismatch);
      }
      out.push_back(b);
    } else if (d.value) {
      out.push_back(*d.value);
    } else if (named != params_.end()) {
      out.push_back(named->second);
    } else {
      return bad(
          strf("input '%s' (%s) has a dynamic dimension %zu (%s): bind it with --shape %s=...",
               v.name.c_str(), want.c_str(), i, dim_text(d).c_str(), v.name.c_str()));
    }
    if (!d.value && !d.param.empty()) params_[d.param] = out.back();
  }
  return out;
}

Status Importer::bind_inputs() {
  for (const auto& [name, dims] : options_.shapes) {
    const bool known = std::any_of(model_.inputs.begin(), model_.inputs.end(),
                                   [&, n = name](const OnnxValueInfo& v) {
                                     return v.name == n && model_.initialisers.count(n) == 0;
                                   });
    if (!known)
      return bad(strf("--shape %s: the model has no such input", name.c_str()), Errc::kNotFound);
  }
  // Inputs with a --shape first, so that dims with the same name follow.
  std::map<std::string, Dims> dims;
  for (const bool with_shape : {true, false}) {
    for (const OnnxValueInfo& v : model_.inputs) {
      if (model_.initialisers.count(v.name) != 0 ||
          (options_.shapes.count(v.name) != 0) != with_shape)
        continue;
      ASSIGN_OR_RETURN(Dims d, input_dims(v));
      if (!dims.emplace(v.name, d).second)
        return bad(strf("input '%s' is there twice", v.name.c_str()));
    }
  }
  for (const OnnxValueInfo& v : model_.inputs) {
    if (model_.initialisers.count(v.name) != 0) continue;
    const Tensor t = Tensor::input(g_, v.name, dims.at(v.name), v.dtype, options_.device);
    RETURN_IF_ERROR(g_.status());
    out_.inputs.push_back({v.name, dims.at(v.name), v.dtype, t});
    values_[v.name] = value_of(t);
  }
  for (const auto& [name, host] : model_.initialisers) values_[name] = value_of(host);
  return {};
}

// ---- order ----

Status Importer::index_nodes() {
  for (size_t i = 0; i < model_.nodes.size(); ++i) {
    const OnnxNode& n = model_.nodes[i];
    for (const std::string& o : n.outputs) {
      if (o.empty()) continue;
      if (values_.count(o) != 0 || !producer_.emplace(o, i).second)
        return bad(
            strf("%s: value '%s' is made twice", node_text(n, model_.opset).c_str(), o.c_str()));
    }
  }
  for (const OnnxNode& n : model_.nodes) {
    for (const std::string& s : n.inputs) {
      if (!s.empty() && values_.count(s) == 0 && producer_.count(s) == 0) {
        return bad(strf("%s: input '%s' is made by no node, initialiser or graph input",
                        node_text(n, model_.opset).c_str(), s.c_str()),
                   Errc::kNotFound);
      }
    }
  }
  return {};
}

// File order where it is an order; depth first otherwise. A node met again on the way down closes a
// cycle.
Result<std::vector<size_t>> Importer::sort_nodes() {
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> mark(model_.nodes.size(), Mark::kNew);
  std::vector<size_t> order;
  for (size_t root = 0; root < model_.nodes.size(); ++root) {
    std::vector<std::pair<size_t, size_t>> stack;
    if (mark[root] == Mark::kNew) stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      mark[node] = Mark::kOpen;
      const OnnxNode& n = model_.nodes[node];
      if (next == n.inputs.size()) {
        mark[node] = Mark::kDone;
        order.push_back(node);
        stack.pop_back();
        continue;
      }
      const auto it = producer_.find(n.inputs[next++]);
      if (it == producer_.end() || mark[it->second] == Mark::kDone) continue;
      if (mark[it->second] == Mark::kOpen)
        return bad(strf("the graph has a cycle through %s",
                        node_text(model_.nodes[it->second], model_.opset).c_str()),
                   Errc::kCycle);
      stack.emplace_back(it->second, 0);
    }
  }
  return order;
}

// ---- nodes ----

Status Importer::check_row(const OnnxNode& n, const OpRow*& row) {
  const std::string text = node_text(n, model_.opset);
  row = n.domain.empty() ? find_op(n.op) : nullptr;
  if (row == nullptr)
    return fail(Errc::kUnsupported, strf("%s: %s: unsupported op", what_.c_str(), text.c_str()));
  if (model_.opset < row->since || model_.opset > row->until) {
    return fail(Errc::kUnsupported, strf("%s: %s: unsupported op in this opset (known in %d to %d)",
                                         what_.c_str(), text.c_str(), row->since, row->until));
  }
  const auto count = static_cast<int>(n.inputs.size());
  if (count < row->min_inputs || (row->max_inputs >= 0 && count > row->max_inputs) ||
      n.outputs.empty()) {
    return bad(strf("%s: %d inputs and %zu outputs", text.c_str(), count, n.outputs.size()));
  }
  return {};
}

Result<std::vector<Value>> Importer::node_inputs(const OnnxNode& n) {
  std::vector<Value> inputs;
  for (const std::string& s : n.inputs) {
    Value v;
    if (!s.empty()) {
      const auto it = values_.find(s);
      if (it == values_.end() || !it->second.present()) {
        const OnnxNode& from = model_.nodes[producer_.at(s)];
        return bad(strf("%s: its output '%s' is read by %s but is not supported",
                        node_text(from, model_.opset).c_str(), s.c_str(),
                        node_text(n, model_.opset).c_str()),
                   Errc::kUnsupported);
      }
      v = it->second;
    }
    inputs.push_back(std::move(v));
  }
  return inputs;
}

// Known inputs give known outputs: the op is built in a graph of its own and evaluated. false: too
// large, build it as usual.
Result<bool> Importer::fold(const OnnxNode& n, const OpRow& row, const std::vector<Value>& inputs) {
  int64_t read = 0;
  for (const Value& v : inputs) {
    if (v.present() && v.host == nullptr) return false;
    read += v.present() ? v.host->count() : 0;
  }
  if (inputs.empty() || read > kFoldInput) return false;
  ir::Graph scratch;
  tensor::WeightStore store;
  OpContext c(scratch, store, options_.device, n, model_.opset, inputs);
  row.build(c);
  if (auto s = c.status(); !s.ok()) return fail(std::move(s).error().with(what_));
  for (const Value& v : c.results()) {
    const int64_t made = tensor::product(v.dims);
    if (v.tensor.valid() &&
        (made > std::max(kFoldOutput, read) || !evaluates_cheaply(scratch, v.tensor)))
      return false;
  }
  std::vector<Value> results = c.results();
  for (Value& v : results) {
    if (!v.tensor.valid()) continue;
    auto a = tensor::HostEval(scratch, &store).run(v.tensor);
    if (!a.ok()) return fail(std::move(a).error().with(what_ + ": " + node_text(n, model_.opset)));
    v = value_of(
        std::make_shared<const HostTensor>(HostTensor{a->dtype, a->dims, tensor::to_bytes(*a)}));
  }
  RETURN_IF_ERROR(publish(n, std::move(results)));
  return true;
}

Status Importer::publish(const OnnxNode& n, std::vector<Value> results) {
  if (!results[0].present())
    return fail(Errc::kInternal,
                strf("%s: %s: no result", what_.c_str(), node_text(n, model_.opset).c_str()));
  for (size_t i = 0; i < results.size(); ++i) {
    if (!n.outputs[i].empty()) values_[n.outputs[i]] = std::move(results[i]);
  }
  return {};
}

Status Importer::build_node(const OnnxNode& n) {
  const OpRow* row = nullptr;
  RETURN_IF_ERROR(check_row(n, row));
  ASSIGN_OR_RETURN(const std::vector<Value> inputs, node_inputs(n));
  ASSIGN_OR_RETURN(const bool folded, fold(n, *row, inputs));
  if (folded) return {};
  OpContext c(g_, out_.weights, options_.device, n, model_.opset, inputs);
  row->build(c);
  if (auto s = c.status(); !s.ok()) return fail(std::move(s).error().with(what_));
  return publish(n, std::move(c.results()));
}

// ---- outputs ----

// An output must be in memory: a value that is only an expression of constants becomes constant
// data.
Result<Tensor> Importer::stored(const Value& v, const std::string& name) {
  if (v.host != nullptr)
    return Tensor::from_data(g_, out_.weights, v.host->bytes, v.host->dims, v.host->dtype,
                             options_.device);
  if (!ir::device(g_, v.tensor.node()).empty()) return v.tensor;
  if (!evaluates_cheaply(g_, v.tensor))
    return bad(strf("output '%s' is a constant that is too large", name.c_str()),
               Errc::kUnsupported);
  auto a = tensor::HostEval(g_, &out_.weights).run(v.tensor);
  if (!a.ok()) return fail(std::move(a).error().with(what_ + ": output '" + name + "'"));
  return Tensor::from_data(g_, out_.weights, tensor::to_bytes(*a), a->dims, a->dtype,
                           options_.device);
}

Status Importer::make_outputs() {
  std::set<std::string> seen;
  ir::NodeVec roots;
  for (const OnnxValueInfo& v : model_.outputs) {
    if (!seen.insert(v.name).second) return bad(strf("output '%s' is there twice", v.name.c_str()));
    const auto it = values_.find(v.name);
    if (it == values_.end() || !it->second.present())
      return bad(strf("output '%s' is made by no node", v.name.c_str()), Errc::kNotFound);
    ASSIGN_OR_RETURN(const Tensor t, stored(it->second, v.name));
    if (t.dtype() != v.dtype)
      return bad(strf("output '%s' has type %s, the file says %s", v.name.c_str(),
                      ir::dtype_name(t.dtype()), ir::dtype_name(v.dtype)),
                 Errc::kMismatch);
    out_.outputs.push_back({v.name, t});
    roots.push_back(t.node());
  }
  RETURN_IF_ERROR(g_.status());
  return ir::verify_tensor(g_, ir::sink(g_, roots));
}

Status Importer::read_metadata() {
  out_.metadata = model_.metadata;
  if (const auto it = model_.metadata.find("modeld.context_frames"); it != model_.metadata.end()) {
    char* end = nullptr;
    const long long v = std::strtoll(it->second.c_str(), &end, 10);
    if (it->second.empty() || *end != '\0' || v < 0 || v > 100000)
      return bad(strf("metadata modeld.context_frames is '%s'", it->second.c_str()));
    out_.context_frames = v;
  }
  const auto it = model_.metadata.find("modeld.slices");
  if (it == model_.metadata.end()) return {};
  const auto json = Json::parse(it->second);
  if (!json.ok() || !json->is_object()) return bad("metadata modeld.slices is not a JSON object");
  for (const auto& [name, value] : json->members()) {
    const bool pair = value.size() == 2 && value.is_array() && value.items()[0].is_int() &&
                      value.items()[1].is_int();
    const int64_t begin = pair ? value.items()[0].int_or(-1) : -1;
    const int64_t end = pair ? value.items()[1].int_or(-1) : -1;
    if (begin < 0 || end < begin)
      return bad(strf("metadata modeld.slices: '%s' is not [begin, end]", name.c_str()));
    if (!out_.slices.emplace(name, std::make_pair(begin, end)).second)
      return bad(strf("metadata modeld.slices: '%s' is there twice", name.c_str()));
  }
  return {};
}

Result<ImportedModel> Importer::run() {
  if (model_.opset < kFirstOpset || model_.opset > kLastOpset) {
    return bad(strf("opset %lld, supported are %lld to %lld", static_cast<long long>(model_.opset),
                    static_cast<long long>(kFirstOpset), static_cast<long long>(kLastOpset)),
               Errc::kUnsupported);
  }
  RETURN_IF_ERROR(bind_inputs());
  RETURN_IF_ERROR(index_nodes());
  ASSIGN_OR_RETURN(const std::vector<size_t> order, sort_nodes());
  for (const size_t i : order) RETURN_IF_ERROR(build_node(model_.nodes[i]));
  RETURN_IF_ERROR(make_outputs());
  RETURN_IF_ERROR(read_metadata());
  out_.sha256 = model_.sha256;
  out_.opset = model_.opset;
  out_.producer = model_.producer;
  return std::move(out_);
}

}  // namespace

const OpRow* find_op(const std::string& name) {
  for (const OpRow& row : kRows) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

std::vector<std::string> op_names() {
  std::vector<std::string> out;
  for (const OpRow& row : kRows) out.emplace_back(row.name);
  return out;
}

Result<ImportedModel> import_onnx_bytes(ir::Graph& g,
                                        std::span<const std::byte> bytes,
                                        const ImportOptions& options,
                                        const std::string& folder,
                                        const std::string& what) {
  ASSIGN_OR_RETURN(OnnxModel model, read_onnx(bytes, folder, what));
  return Importer(g, options, std::move(model), what).run();
}

Result<ImportedModel> import_onnx(ir::Graph& g,
                                  const std::string& path,
                                  const ImportOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_file(path, kMaxModelBytes));
  return import_onnx_bytes(g, bytes, options, dir_name(path), path);
}

Result<std::pair<std::string, tensor::Dims>> parse_shape_option(const std::string& text) {
  const size_t eq = text.rfind('=');
  tensor::Dims dims;
  bool good = eq != std::string::npos && eq > 0 && eq + 1 < text.size();
  for (size_t at = eq + 1; good && at <= text.size();) {
    const size_t end = std::min(text.find('x', at), text.size());
    const std::string digits = text.substr(at, end - at);
    good = !digits.empty() && digits.size() <= 9 &&
           digits.find_first_not_of("0123456789") == std::string::npos;
    if (good) dims.push_back(std::stoll(digits));
    good = good && dims.back() > 0;
    at = end + 1;
  }
  if (!good) return fail(Errc::kInvalid, strf("shape '%s' is not NAME=1x3x320x320", text.c_str()));
  return std::make_pair(text.substr(0, eq), dims);
}

}  // namespace modeld::onnx_import
