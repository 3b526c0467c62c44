#include "runtime/schedule/prepare_rangeify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/ir/base_storage.h"
#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/schedule/byte_view.h"
#include "runtime/schedule/copy_rules.h"
#include "runtime/schedule/expand_bitcast.h"
#include "runtime/schedule/expr_util.h"
#include "runtime/schedule/fix_store_hazard.h"
#include "runtime/schedule/multi.h"
#include "runtime/schedule/resolve_function.h"
#include "runtime/schedule/split_reduceop.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using ir::RuleSet;

namespace {

// ---- movement clean up ----

const Node* merge_reshape(Graph& g, const Node* n) {
  if (ir::Shape(ir::shape(g, n)) == ir::Shape(ir::shape(g, n->src(0)))) return n->src(0);
  if (n->src(0)->op != Op::kReshape) return nullptr;
  return g.with_src(n, {n->src(0)->src(0), n->src(1)});
}

const Node* merge_permute(Graph& g, const Node* n) {
  const ir::Ints& outer = n->as<ir::Ints>();
  ir::Ints identity(outer.size());
  std::iota(identity.begin(), identity.end(), 0);
  if (outer == identity) return n->src(0);
  if (n->src(0)->op != Op::kPermute) return nullptr;
  const ir::Ints& inner = n->src(0)->as<ir::Ints>();
  ir::Ints both;
  for (int64_t o : outer) both.push_back(inner[static_cast<size_t>(o)]);
  return g.make(Op::kPermute, n->dtype, {n->src(0)->src(0)}, std::move(both));
}

const Node* drop_noop_movement(Graph& g, const Node* n) {
  if (n->op == Op::kFlip) {
    const ir::Ints& f = n->as<ir::Ints>();
    return std::all_of(f.begin(), f.end(), [](int64_t v) { return v == 0; }) ? n->src(0) : nullptr;
  }
  // SHRINK, PAD and EXPAND that keep every size keep every element.
  return ir::Shape(ir::shape(g, n)) == ir::Shape(ir::shape(g, n->src(0))) ? n->src(0) : nullptr;
}

// ---- storage is flat, states are outside of views ----

const Node* flatten_storage(Graph& g, const Node* n) {
  if (is_scalar_param(n) || n->src(0)->op != Op::kStack) return nullptr;
  const Node* flat = g.with_src(n, {ir::const_int(g, ir::element_count(g, n))});
  return g.make(Op::kReshape, n->dtype, {flat, n->src(0)});
}

// States are of storage: views, BITCASTs too, stand above them.
const Node* after_below_view(Graph& g, const Node* n) {
  const Node* view = n->src(0);
  if (!ir::kMovementOps.has(view->op) && view->op != Op::kBitCast) return nullptr;
  NodeVec src(n->src().begin(), n->src().end());
  src[0] = view->src(0);
  NodeVec moved(view->src().begin(), view->src().end());
  moved[0] = g.make(Op::kAfter, src[0]->dtype, src);
  return g.with_src(view, moved);
}

// A state that waits on a view of a state waits on the state.
const Node* after_waits_on_states(Graph& g, const Node* n) {
  NodeVec src{n->src(0)};
  for (const Node* d : n->src().subspan(1)) {
    const Node* b = ir::base(d);
    if (b->op == Op::kBuffer || b->op == Op::kParam) continue;  // nothing to wait for
    if (std::find(src.begin() + 1, src.end(), b) == src.end()) src.push_back(b);
  }
  return src.size() == 1 ? src[0] : g.with_src(n, src);
}

const Node* sink_of_bases(Graph& g, const Node* n) {
  if (n->has<ir::KernelInfo>()) return nullptr;
  NodeVec src;
  ir::VisitSet seen;
  for (const Node* s : n->src()) {
    const Node* b = below_views(s);
    if (seen.insert(b)) src.push_back(b);
  }
  return g.with_src(n, src);
}

// ---- stores ----

// True if both views take the same elements of one buffer.
bool same_place(Graph& g, const Node* a, const Node* b) {
  while (a != b && ir::kMovementOps.has(a->op)) {
    if (a->op != b->op || a->arg != b->arg || a->nsrc != b->nsrc) return false;
    for (size_t i = 1; i < a->nsrc; i++) {
      if (a->src(i) != b->src(i)) return false;
    }
    a = a->src(0);
    b = b->src(0);
  }
  if (a == b) return true;
  return is_state(a) && is_state(b) && ir::base_storage(g, a) == ir::base_storage(g, b);
}

// Every access to volatile storage counts, also one that changes nothing.
bool is_volatile(Graph& g, const Node* state) {
  const Node* storage = ir::base_storage(g, state);
  return storage->has<ir::ParamArg>() && storage->as<ir::ParamArg>().is_volatile;
}

// Storing what is already there: the place holds, in the state before, what is stored.
bool stores_own_contents(Graph& g, const Node* after, const Node* store) {
  if (store->src(0) == store->src(1)) return true;
  const Node* read = ir::base(store->src(1));
  return read == ir::base(after->src(0)) && same_place(g, store->src(0), store->src(1));
}

const Node* drop_self_store(Graph& g, const Node* n) {
  if (is_scalar_param(n) || is_volatile(g, n)) return nullptr;
  NodeVec src{n->src(0)};
  for (const Node* d : n->src().subspan(1)) {
    if (d->op != Op::kStore || !stores_own_contents(g, n, d)) src.push_back(d);
  }
  if (src.size() == n->nsrc) return nullptr;
  return src.size() == 1 ? src[0] : g.with_src(n, src);
}

// The same value stored into the same place twice in a row is stored once.
const Node* merge_same_store(Graph& g, const Node* n) {
  const Node* before = n->src(0);
  if (n->nsrc != 2 || before->op != Op::kAfter || before->nsrc != 2) return nullptr;
  const Node *again = n->src(1), *first = before->src(1);
  if (again->op != Op::kStore || first->op != Op::kStore) return nullptr;
  if (is_scalar_param(n) || is_volatile(g, n) || again->src(1) != first->src(1)) return nullptr;
  return same_place(g, again->src(0), first->src(0)) ? before : nullptr;
}

// ---- empty tensors ----

const Node* zeros_like(Graph& g, const Node* n) {
  const std::vector<int64_t> dims = ir::max_shape(g, n);
  const Node* zero = ir::const_int(g, 0, n->dtype);
  return dims.empty() ? zero : g.make(Op::kExpand, n->dtype, {zero, ir::shape_node(g, dims)});
}

bool is_empty(Graph& g, const Node* n) {
  return ir::element_count(g, n) == 0;
}

const Node* reduce_of_empty(Graph& g, const Node* n) {
  if (!is_empty(g, n->src(0)) || is_empty(g, n)) return nullptr;
  const Op op = n->as<ir::ReduceArg>().op;
  const Node* identity = nullptr;
  if (op == Op::kAdd) identity = ir::const_int(g, 0, n->dtype);
  if (op == Op::kMul) identity = ir::const_int(g, 1, n->dtype);
  if (op == Op::kMax) {
    identity = ir::is_float(n->dtype)
                   ? ir::const_float(g, -std::numeric_limits<double>::infinity(), n->dtype)
                   : ir::const_int(g, ir::int_min(n->dtype), n->dtype);
  }
  const std::vector<int64_t> dims = ir::max_shape(g, n);
  if (dims.empty()) return identity;
  return g.make(Op::kExpand, n->dtype, {identity, ir::shape_node(g, dims)});
}

const Node* empty_value(Graph& g, const Node* n) {
  if (n->op == Op::kExpand && n->src(0)->op == Op::kConst) return nullptr;
  return is_empty(g, n) ? zeros_like(g, n) : nullptr;
}

const Node* drop_empty_store(Graph& g, const Node* n) {
  NodeVec src{n->src(0)};
  for (const Node* d : n->src().subspan(1)) {
    if (d->op != Op::kStore || !is_empty(g, d->src(0))) src.push_back(d);
  }
  if (src.size() == n->nsrc) return nullptr;
  return src.size() == 1 ? src[0] : g.with_src(n, src);
}

// ---- indices ----

// Elements of elements: the outer indices pick among the places the inner ones name.
const Node* index_of_index(Graph& g, const Node* n) {
  const Node* inner = n->src(0);
  if (inner->op != Op::kIndex) return nullptr;
  NodeVec src{inner->src(0)};
  size_t next = 1;
  for (const Node* place : inner->src().subspan(1)) {
    NodeVec picked{place};
    const size_t rank = ir::shape(g, place).size();
    while (picked.size() <= rank && next < n->nsrc) picked.push_back(n->src(next++));
    src.push_back(picked.size() == 1 ? place : g.make(Op::kIndex, place->dtype, picked));
  }
  for (; next < n->nsrc; next++) src.push_back(n->src(next));
  return g.with_src(n, src);
}

const Node* const_index_of_stack(Graph& g, const Node* n) {
  const Node* stack = n->src(0);
  if (stack->op != Op::kStack || n->nsrc < 2) return nullptr;
  const auto element = ir::int_value(n->src(1));
  if (!element || *element < 0 || *element >= static_cast<int64_t>(stack->nsrc)) return nullptr;
  NodeVec src{stack->src(static_cast<size_t>(*element))};
  src.insert(src.end(), n->src().begin() + 2, n->src().end());
  return src.size() == 1 ? src[0] : g.with_src(n, src);
}

// What a store writes to, before anything below it is rewritten as a value.
RuleSet store_rules() {
  RuleSet rules;
  rules.on({Op::kAfter}, "after_below_view", after_below_view);
  rules.on({Op::kStore}, "store_without_bitcast", store_without_bitcast);
  rules.on({Op::kStore}, "copy_in_place", copy_in_place);
  return rules;
}

RuleSet make_rules(const ScheduleOptions& options) {
  RuleSet rules;
  static constexpr ir::OpSet kKeepSize = {Op::kShrink, Op::kPad, Op::kExpand, Op::kFlip};
  static constexpr ir::OpSet kMaybeEmpty =
      ir::kElementwiseOps | ir::kMovementOps | ir::OpSet{Op::kReduce, Op::kContiguous, Op::kIndex};
  rules.on({Op::kDetach, Op::kContiguousBackward}, "drop_marker",
           [](Graph&, const Node* n) { return n->src(0); });
  rules.on({Op::kReduce}, "reduce_of_empty", reduce_of_empty);
  rules.on(kMaybeEmpty, "empty_value", empty_value);
  rules.on({Op::kAfter}, "drop_empty_store", drop_empty_store, {Op::kStore});
  rules.on({Op::kReshape}, "merge_reshape", merge_reshape);
  rules.on({Op::kPermute}, "merge_permute", merge_permute);
  rules.on(kKeepSize, "drop_noop_movement", drop_noop_movement);
  rules.on({Op::kBuffer, Op::kParam}, "flatten_storage", flatten_storage);
  rules.on({Op::kAfter}, "after_below_view", after_below_view);
  rules.on({Op::kAfter}, "after_waits_on_states", after_waits_on_states);
  rules.on({Op::kAfter}, "drop_self_store", drop_self_store, {Op::kStore});
  rules.on({Op::kAfter}, "merge_same_store", merge_same_store, {Op::kStore});
  rules.on({Op::kIndex}, "index_of_index", index_of_index, {Op::kIndex});
  rules.on({Op::kIndex}, "const_index_of_stack", const_index_of_stack, {Op::kStack});
  rules.on({Op::kBitCast}, "expand_bitcast", expand_bitcast);
  rules.on({Op::kCopy}, "copy_to_store", copy_to_store);
  rules.on({Op::kReduce}, "split_reduceop",
           [&options](Graph& g, const Node* n) { return split_reduceop(g, n, options); });
  rules.on({Op::kStore}, "fix_store_hazard", [](Graph& g, const Node* n) -> const Node* {
    return is_scalar_param(n->src(0)) ? nullptr : fix_store_hazard(g, n);
  });
  rules.on({Op::kSink}, "sink_of_bases", sink_of_bases);
  return rules;
}

}  // namespace

Result<const Node*> prepare_rangeify(Graph& g, const Node* sink, const ScheduleOptions& options) {
  ASSIGN_OR_RETURN(const Node* root, resolve_functions(g, sink));
  ASSIGN_OR_RETURN(root, resolve_multi(g, root, options));
  root = ir::rewrite_node_first(g, root, store_rules());
  if (g.failed()) return fail(g.status().error());
  root = ir::rewrite(g, root, make_rules(options));
  if (g.failed()) return fail(g.status().error());
  // Values of the SINK that nobody stores have no effect.
  NodeVec effects;
  for (const Node* s : root->src()) {
    if (s->op == Op::kAfter && !is_scalar_param(s)) effects.push_back(s);
  }
  return g.with_src(root, effects);
}

}  // namespace modeld::schedule
