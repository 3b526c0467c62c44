#include "runtime/schedule/copy_rules.h"

#include <algorithm>

#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/schedule/byte_view.h"
#include "runtime/schedule/expand_bitcast.h"
#include "runtime/schedule/expr_util.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Ints;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

bool names_backend(const std::string& device, const char* backend) {
  return device.substr(0, device.find(':')) == backend;
}

bool has_sub_buffers(const std::string& device) {
  return !names_backend(device, "CL") && !names_backend(device, "WEBGPU");
}

const Node* reshape(Graph& g, const Node* x, const Ints& dims) {
  return g.make(Op::kReshape, x->dtype, {x, ir::shape_node(g, dims)});
}

const Node* flatten(Graph& g, const Node* x) {
  const int64_t count = ir::element_count(g, x);
  return ir::max_shape(g, x) == Ints{count} ? x : reshape(g, x, {count});
}

bool moves(const Node* n) {
  return ir::kMovementOps.has(n->op) || n->op == Op::kDetach;
}

// x with every axis of `dims` written out: the axes it lacks or has once are added in front and
// permuted into place.
const Node* broadcast_to(Graph& g, const Node* x, const Ints& dims) {
  const Ints have = ir::max_shape(g, x);
  const size_t lead = dims.size() - have.size();
  Ints kept, added, order(dims.size());
  for (size_t i = 0; i < dims.size(); i++) {
    const bool missing = i < lead || have[i - lead] != dims[i];
    (missing ? added : kept).push_back(dims[i]);
  }
  if (added.empty()) return x;
  size_t next_added = 0, next_kept = added.size();
  for (size_t i = 0; i < dims.size(); i++) {
    const bool missing = i < lead || have[i - lead] != dims[i];
    order[i] = static_cast<int64_t>(missing ? next_added++ : next_kept++);
  }
  const Node* wide = g.make(Op::kExpand, x->dtype, {reshape(g, x, kept), ir::shape_node(g, added)});
  return g.make(Op::kPermute, x->dtype, {wide}, order);
}

}  // namespace

bool is_disk(const std::string& device) {
  return names_backend(device, "DISK");
}

const Node* contiguous_run(Graph& g, const Node* n) {
  const Node* state = n;
  for (; moves(state); state = state->src(0)) {
    if (is_symbolic(g, state)) return nullptr;
  }
  if (!is_state(state) || is_symbolic(g, state)) return nullptr;
  const Node* whole = g.make(Op::kParam, state->dtype, {ir::shape_node(g, ir::max_shape(g, state))},
                             ir::ParamArg{});
  const auto view = ir::contiguous_view(g, ir::substitute(g, n, {{state, whole}}));
  if (!view) return nullptr;
  const Node* flat = flatten(g, state);
  const int64_t count = ir::element_count(g, n);
  if (count == ir::element_count(g, state)) return flat;
  if (!has_sub_buffers(ir::device(g, state))) return nullptr;
  return g.make(Op::kShrink, n->dtype,
                {flat, ir::shape_node(g, Ints{view->offset}), ir::shape_node(g, Ints{count})});
}

const Node* copy_to_store(Graph& g, const Node* n) {
  const Node* x = n->src(0);
  const std::string& to = n->as<std::string>();
  const std::string& from = ir::device(g, x);
  if (from == to || from.empty()) return x;
  if (x->op == Op::kReshape) {
    return g.with_src(x, {g.with_src(n, {x->src(0)}), x->src(1)});
  }
  // A DISK computes nothing: its bytes travel as they are.
  if (x->op == Op::kBitCast && is_disk(from)) {
    return g.make(Op::kBitCast, x->dtype, {g.make(Op::kCopy, x->src(0)->dtype, {x->src(0)}, to)});
  }
  const Node* source = contiguous_run(g, x);
  if (source == nullptr) {
    if (x->op != Op::kContiguous) {
      return g.with_src(n, {g.make(Op::kContiguous, x->dtype, {x})});
    }
    source = flatten(g, x);
  }
  const int64_t count = ir::element_count(g, x);
  const Node* buffer = ir::buffer(g, g.fresh(), x->dtype, count, ir::AddrSpace::kGlobal, to);
  const Node* store = g.make(Op::kStore, ir::DType::kVoid, {buffer, source});
  const Node* state = g.make(Op::kAfter, x->dtype, {buffer, store});
  return reshape(g, state, ir::max_shape(g, x));
}

const Node* copy_in_place(Graph& g, const Node* store) {
  const Node* copy = store->src(1);
  while (copy->op == Op::kReshape) copy = copy->src(0);
  if (copy->op != Op::kCopy) return nullptr;
  const Node* target = store->src(0);
  const std::string& to = copy->as<std::string>();
  const std::string& from = ir::device(g, copy->src(0));
  if (from.empty() || from == to || ir::device(g, target) != to) return nullptr;
  if (ir::element_count(g, copy) != ir::element_count(g, target)) return nullptr;
  const Node* place = contiguous_run(g, target);
  if (place == nullptr || place->dtype != copy->dtype) return nullptr;
  const Node* source = contiguous_run(g, copy->src(0));
  if (source == nullptr) {
    const Node* x = copy->src(0);
    // Bytes of a DISK under a BITCAST have to arrive before they can be looked at.
    if (below_views(x)->op == Op::kBitCast || is_disk(from)) return nullptr;
    if (x->op != Op::kContiguous) x = g.make(Op::kContiguous, x->dtype, {x});
    source = flatten(g, x);
  }
  return g.with_src(store, {place, source});
}

const Node* store_without_bitcast(Graph& g, const Node* store) {
  NodeVec views;
  const Node* target = store->src(0);
  for (; moves(target); target = target->src(0)) views.push_back(target);
  if (target->op != Op::kBitCast) return nullptr;
  const Node* below = target->src(0);
  const Node* value = store->src(1);
  if (resizes_items(target)) {
    if (!views.empty()) {
      g.fail(Errc::kUnsupported,
             strf("store: a view of a bitcast from %s to %s is no place to store",
                  ir::dtype_name(below->dtype), ir::dtype_name(target->dtype)));
      return nullptr;
    }
    value = broadcast_to(g, value, ir::max_shape(g, target));
  } else {
    for (size_t i = views.size(); i-- > 0;) {
      NodeVec src(views[i]->src().begin(), views[i]->src().end());
      src[0] = below;
      below = g.make(views[i]->op, below->dtype, src, *views[i]->arg);
    }
  }
  value = ir::cast(g, value, target->dtype);  // weak values take the type they are stored as
  return g.with_src(store, {below, g.make(Op::kBitCast, below->dtype, {value})});
}

}  // namespace modeld::schedule
