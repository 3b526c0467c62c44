#include "runtime/exec/jit_signature.h"

#include <algorithm>
#include <utility>

#include "runtime/ir/derived.h"
#include "runtime/ir/print.h"
#include "runtime/ir/rewrite.h"
#include "runtime/schedule/byte_view.h"

namespace modeld::exec {

using ir::Fault;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

constexpr ir::OpSet kViewOps = ir::kMovementOps | ir::OpSet{Op::kBitCast, Op::kDetach, Op::kMStack,
                                                            Op::kMSelect, Op::kUnshard};

uint64_t bytes_of(ir::Graph& g, const Node* n) {
  return static_cast<uint64_t>(ir::element_count(g, n)) *
         static_cast<uint64_t>(ir::item_size(n->dtype));
}

// Down the data of a node that is a view: its other sources say dims, not data.
std::span<const Node* const> data_sources(const Node* n) {
  return n->op == Op::kMStack ? n->src() : n->src().first(1);
}

// The view as text, over place holders instead of buffers and without the values of variables.
std::string view_text(ir::Graph& g, const Node* node, const NodeVec& buffers) {
  if (buffers.size() == 1) {
    if (const auto view = schedule::byte_view(g, node))
      return strf("+%lld", static_cast<long long>(view->offset));
  }
  ir::NodeMap map;
  for (size_t i = 0; i < buffers.size(); ++i)
    map[buffers[i]] = ir::param(g, static_cast<int64_t>(i), buffers[i]->dtype,
                                ir::element_count(g, buffers[i]), ir::device(g, buffers[i]));
  for (const Node* n : ir::toposort(node))
    if (schedule::is_bound_variable(n)) map[n] = n->src(0);
  return ir::print(ir::substitute(g, node, map));
}

std::string dims_of(const InputInfo& i) {
  std::string out = ir::dtype_name(i.dtype);
  for (const int64_t d : i.dims) out += strf(" %lld", static_cast<long long>(d));
  return out;
}

std::string difference(const InputInfo& a, const InputInfo& b) {
  if (a.name != b.name)
    return strf("tensor %s stands where %s was", b.name.c_str(), a.name.c_str());
  const char* name = a.name.c_str();
  if (a.dtype != b.dtype || a.dims != b.dims)
    return strf("tensor %s is %s, was %s", name, dims_of(b).c_str(), dims_of(a).c_str());
  if (a.buffers.size() != b.buffers.size())
    return strf("tensor %s lies in %zu buffers, was in %zu", name, b.buffers.size(),
                a.buffers.size());
  for (size_t i = 0; i < a.buffers.size(); ++i) {
    const BufferInfo &x = a.buffers[i], &y = b.buffers[i];
    if (x.device != y.device)
      return strf("tensor %s lies on %s, was on %s", name, y.device.c_str(), x.device.c_str());
    if (x != y)
      return strf("tensor %s lies in %llu bytes of %s, was in %llu of %s", name,
                  static_cast<unsigned long long>(y.bytes), ir::dtype_name(y.dtype),
                  static_cast<unsigned long long>(x.bytes), ir::dtype_name(x.dtype));
  }
  return strf("tensor %s is another view of its buffer", name);
}

Result<InputInfo> input_info(Session& s, const JitArgs::Named& named, const NodeVec& buffers) {
  ir::Graph& g = s.graph();
  const Node* node = named.tensor.node();
  InputInfo info;
  info.name = named.name;
  info.dtype = node->dtype;
  info.dims = ir::max_shape(g, node);
  info.view = view_text(g, node, buffers);
  for (const Node* b : buffers)
    info.buffers.push_back(BufferInfo{ir::device(g, b), b->dtype, bytes_of(g, b)});
  RETURN_IF_ERROR(g.status());
  return info;
}

// A second tensor in memory that is taken already.
Status check_distinct(const BoundArgs& bound, const hal::Buffer& memory, const std::string& name) {
  const auto overlaps = [&memory](const hal::Buffer& other) {
    return memory.addr() < other.addr() + other.size() &&
           other.addr() < memory.addr() + memory.size();
  };
  size_t at = 0;
  for (const InputInfo& earlier : bound.signature.inputs)
    for (size_t i = 0; i < earlier.buffers.size(); ++i, ++at)
      if (overlaps(bound.memory[at]))
        return fail(Fault::kDuplicateInput, strf("jit: duplicate inputs: %s and %s share memory",
                                                 earlier.name.c_str(), name.c_str()));
  return {};
}

Status bind_tensor(Session& session, const JitArgs::Named& named, BoundArgs& out) {
  const std::string what = "argument " + named.name;
  ASSIGN_OR_RETURN(const NodeVec buffers, buffers_of_view(named.tensor.node(), what));
  std::vector<hal::Buffer> memory;
  for (const Node* b : buffers) {
    ASSIGN_OR_RETURN(hal::Buffer m, session.memory(b));
    RETURN_IF_ERROR(check_distinct(out, m, named.name));
    memory.push_back(std::move(m));
  }
  ASSIGN_OR_RETURN(InputInfo info, input_info(session, named, buffers));
  out.signature.inputs.push_back(std::move(info));
  out.buffers.insert(out.buffers.end(), buffers.begin(), buffers.end());
  std::move(memory.begin(), memory.end(), std::back_inserter(out.memory));
  return {};
}

// Variables stand among the arguments or inside the views of tensors.
Result<std::map<std::string, const Node*>> variables_of(const JitArgs& args) {
  NodeVec bound;
  for (const Node* v : args.variables()) {
    if (!schedule::is_bound_variable(v))
      return fail(Fault::kUnboundVariable, "jit: a variable argument has no value");
    bound.push_back(v);
  }
  for (const JitArgs::Named& t : args.tensors())
    for (const Node* n : ir::toposort(t.tensor.node()))
      if (schedule::is_bound_variable(n)) bound.push_back(n);
  std::map<std::string, const Node*> out;
  for (const Node* v : bound) {
    const std::string& name = v->src(0)->as<ir::ParamArg>().name;
    const auto [at, is_new] = out.emplace(name, v);
    if (!is_new && at->second != v)
      return fail(Fault::kBindMismatch,
                  strf("jit: bind mismatch on %s, %lld != %lld", name.c_str(),
                       static_cast<long long>(schedule::bound_value(at->second)),
                       static_cast<long long>(schedule::bound_value(v))));
  }
  return out;
}

}  // namespace

JitArgs& JitArgs::add(Live t) {
  positional_.push_back(std::move(t));
  return *this;
}

JitArgs& JitArgs::add(const std::string& keyword, Live t) {
  keywords_[keyword] = {std::move(t)};
  is_list_[keyword] = false;
  return *this;
}

JitArgs& JitArgs::add_list(const std::string& keyword, std::vector<Live> list) {
  keywords_[keyword] = std::move(list);
  is_list_[keyword] = true;
  return *this;
}

JitArgs& JitArgs::add_variable(const Node* bound) {
  variables_.push_back(bound);
  return *this;
}

const Node* JitArgs::variable(const std::string& name) const {
  for (const Node* v : variables_)
    if (v->src(0)->as<ir::ParamArg>().name == name) return v;
  return nullptr;
}

std::vector<JitArgs::Named> JitArgs::tensors() const {
  std::vector<Named> out;
  for (size_t i = 0; i < positional_.size(); ++i) out.push_back({strf("%zu", i), positional_[i]});
  for (const auto& [keyword, list] : keywords_)
    for (size_t i = 0; i < list.size(); ++i)
      out.push_back(
          {is_list_.at(keyword) ? strf("%s[%zu]", keyword.c_str(), i) : keyword, list[i]});
  return out;
}

Result<NodeVec> buffers_of_view(const Node* node, const std::string& what) {
  NodeVec out, stack{node};
  while (!stack.empty()) {
    const Node* n = stack.back();
    stack.pop_back();
    const bool is_place = n->op == Op::kParam && n->as<ir::ParamArg>().slot >= 0;
    if (n->op == Op::kBuffer || is_place) {
      if (std::find(out.begin(), out.end(), n) == out.end()) out.push_back(n);
    } else if (kViewOps.has(n->op)) {
      const auto sources = data_sources(n);
      stack.insert(stack.end(), sources.rbegin(), sources.rend());
    } else {
      return fail(Fault::kNotABuffer, strf("jit: %s must be a real buffer, it is %s", what.c_str(),
                                           ir::op_name(n->op)));
    }
  }
  return out;
}

Status check_signature(const JitSignature& captured, const JitSignature& given) {
  const auto mismatch = [](const std::string& what) {
    return fail(Fault::kArgsMismatch, "jit: args mismatch: " + what);
  };
  if (captured.inputs.size() != given.inputs.size())
    return mismatch(
        strf("%zu tensors, captured with %zu", given.inputs.size(), captured.inputs.size()));
  for (size_t i = 0; i < captured.inputs.size(); ++i)
    if (captured.inputs[i] != given.inputs[i])
      return mismatch(difference(captured.inputs[i], given.inputs[i]));
  if (captured.variables.size() != given.variables.size())
    return mismatch(strf("%zu variables, captured with %zu", given.variables.size(),
                         captured.variables.size()));
  for (size_t i = 0; i < captured.variables.size(); ++i) {
    const VariableInfo &a = captured.variables[i], &b = given.variables[i];
    if (a != b)
      return mismatch(strf("variable %s from %lld to %lld, was %s from %lld to %lld",
                           b.name.c_str(), static_cast<long long>(b.vmin),
                           static_cast<long long>(b.vmax), a.name.c_str(),
                           static_cast<long long>(a.vmin), static_cast<long long>(a.vmax)));
  }
  return {};
}

Result<BoundArgs> bind_arguments(Session& session, const JitArgs& args) {
  const std::vector<JitArgs::Named> tensors = args.tensors();
  std::vector<Live> lives;
  for (const JitArgs::Named& t : tensors) {
    if (!t.tensor.valid())
      return fail(Fault::kNotABuffer, strf("jit: argument %s is no tensor", t.name.c_str()));
    lives.push_back(t.tensor);
  }
  RETURN_IF_ERROR(session.realize(lives));
  BoundArgs out;
  for (const JitArgs::Named& t : tensors) RETURN_IF_ERROR(bind_tensor(session, t, out));
  ASSIGN_OR_RETURN(const auto variables, variables_of(args));
  for (const auto& [name, v] : variables) {
    const auto& p = v->src(0)->as<ir::ParamArg>();
    out.signature.variables.push_back(VariableInfo{name, p.vmin, p.vmax, p.multiple_of});
    out.values.push_back(schedule::bound_value(v));
  }
  return out;
}

}  // namespace modeld::exec
