#include "runtime/schedule/multi_storage.h"

#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/schedule/expr_util.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

const Node* flat(Graph& g, const Node* x) {
  if (ir::shape(g, x).size() == 1) return x;
  const ir::Ints count{ir::element_count(g, x)};
  return g.make(Op::kReshape, x->dtype, {x, ir::shape_node(g, count)});
}

// CONTIGUOUS without kernel options only asks for what storing gives anyway.
const Node* value_of(const Node* x) {
  while ((x->op == Op::kContiguous && !x->has<ir::Opts>()) || x->op == Op::kDetach) x = x->src(0);
  return x;
}

}  // namespace

const Node* MultiStorage::flat_state(const Node* x) {
  while (x->op == Op::kReshape || x->op == Op::kContiguous || x->op == Op::kDetach) {
    if (x->has<ir::Opts>()) return nullptr;
    x = x->src(0);
  }
  if (is_scalar_param(x)) return nullptr;
  if (x->op == Op::kBuffer || x->op == Op::kParam) {
    if (x->src(0)->op != Op::kStack) return x;
    return g_.with_src(x, {ir::const_int(g_, ir::element_count(g_, x))});
  }
  if (x->op != Op::kAfter && x->op != Op::kMSelect && x->op != Op::kMStack) return nullptr;
  NodeVec src(x->src().begin(), x->src().end());
  const size_t states = x->op == Op::kMStack ? src.size() : 1;
  for (size_t i = 0; i < states; i++) {
    src[i] = flat_state(src[i]);
    if (src[i] == nullptr) return nullptr;
  }
  return g_.with_src(x, src);
}

const Node* MultiStorage::state_of(const Node* x) {
  if (const Node* s = flat_state(x)) return s;
  const Node* value = value_of(x);
  const Node*& s = states_[value];
  if (s == nullptr) s = store_into_fresh(flat(g_, value), ir::device(g_, value));
  return s;
}

const Node* MultiStorage::store_into_fresh(const Node* value, const std::string& device) {
  if (ir::is_weak(value->dtype)) {
    g_.fail(ir::Fault::kWeakStorage,
            strf("copy of %s: a value of weak type %s has no storage",
                 ir::tensor_name(value).c_str(), ir::dtype_name(value->dtype)));
  }
  const Node* b = ir::buffer(g_, g_.fresh(), ir::strong(value->dtype), ir::element_count(g_, value),
                             ir::AddrSpace::kGlobal, device);
  own_.insert(b);
  const Node* store = g_.make(Op::kStore, ir::DType::kVoid, {b, value});
  return g_.make(Op::kAfter, b->dtype, {b, store});
}

const Node* MultiStorage::in_shape(const Node* state, const Node* like) {
  const std::vector<int64_t> dims = ir::max_shape(g_, like);
  return g_.make(Op::kReshape, state->dtype, {state, ir::shape_node(g_, dims)});
}

const Node* MultiStorage::moved(const Node* x, const std::string& to) {
  const std::string from = ir::device(g_, x);
  if (from == to || from.empty()) return x;
  const Node* source = state_of(x);
  const Node*& copy = moved_[{source->id, to}];
  if (copy == nullptr) {
    copy = store_into_fresh(source, to);
    sources_[copy] = source;
  }
  return in_shape(copy, x);
}

const Node* MultiStorage::source_of(const Node* state) const {
  const auto it = sources_.find(state);
  return it == sources_.end() ? nullptr : it->second;
}

const Node* MultiStorage::on_device(const Node* expression, int64_t i) {
  ir::NodeMap here;
  for (const Node* r : ir::ranges(g_, expression)) {
    if (r->as<ir::RangeArg>().type == ir::AxisType::kDevice) here[r] = ir::const_int(g_, i);
  }
  return here.empty() ? expression : ir::substitute(g_, expression, here);
}

const Node* MultiStorage::part_of(const Node* x, int64_t i) {
  const std::string& device = ir::device(g_, x);
  if (device.empty()) return on_device(x, i);
  if (!ir::is_device_tuple(device)) return x;
  if (const Node* s = flat_state(x)) {
    const Node* part = s->op == Op::kMStack ? s->src(static_cast<size_t>(i))
                                            : g_.make(Op::kMSelect, s->dtype, {s}, i);
    return in_shape(part, x);
  }
  if (x->op == Op::kMStack) return x->src(static_cast<size_t>(i));
  if (ir::kMovementOps.has(x->op)) {
    NodeVec src{part_of(x->src(0), i)};
    for (const Node* s : x->src().subspan(1)) src.push_back(on_device(s, i));
    return g_.with_src(x, src);
  }
  const Node* part = g_.make(Op::kMSelect, x->dtype, {state_of(x)}, i);
  return in_shape(part, x);
}

const Node* MultiStorage::stacked(const NodeVec& parts) {
  NodeVec states;
  for (const Node* p : parts) {
    if (ir::device(g_, p).empty()) return p;  // a constant is everywhere
    states.push_back(state_of(p));
  }
  return in_shape(g_.make(Op::kMStack, states[0]->dtype, states), parts[0]);
}

}  // namespace modeld::schedule
