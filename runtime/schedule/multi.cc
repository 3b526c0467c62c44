#include "runtime/schedule/multi.h"

#include <algorithm>

#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/schedule/expr_util.h"
#include "runtime/schedule/handle_allreduce.h"
#include "runtime/schedule/multi_check.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using ir::Sharding;

namespace {

// ---- marks, states, effects ----

// CONTIGUOUS, DETACH ...: the same on the part.
const Node* mark_multi(Multi& m, const Node* n) {
  const Node* x = n->src(0);
  if (x->op != Op::kUnshard) return nullptr;
  return m.g.with_src(x, [&] {
    NodeVec src(x->src().begin(), x->src().end());
    src[0] = m.g.with_src(n, {x->src(0)});
    return src;
  }());
}

// A state of a sharded buffer is a sharded state; what it waits on are states and effects.
const Node* after_multi(Multi& m, const Node* n) {
  if (!n->child_ops.has(Op::kUnshard)) return nullptr;
  NodeVec src;
  for (const Node* s : n->src()) src.push_back(s->op == Op::kUnshard ? s->src(0) : s);
  const Node* local = m.g.with_src(n, src);
  const Node* x = n->src(0);
  if (x->op != Op::kUnshard) return local;
  NodeVec global(x->src().begin(), x->src().end());
  global[0] = local;
  return m.g.with_src(x, global);
}

// Arguments of a call, and what a SINK keeps: local values.
const Node* strip_unshard(Multi& m, const Node* n) {
  if (!n->child_ops.has(Op::kUnshard)) return nullptr;
  NodeVec src;
  for (const Node* s : n->src()) src.push_back(s->op == Op::kUnshard ? s->src(0) : s);
  return m.g.with_src(n, src);
}

// A sharded parameter is a local one, seen globally.
const Node* param_multi(Multi& m, const Node* n) {
  const Sharding s = ir::sharding(m.g, n);
  if (s.empty()) return nullptr;
  const ir::Ints dims = ir::local_shape(m.g, n);
  ir::ParamArg arg = n->as<ir::ParamArg>();
  arg.axis = -1;
  const Node* local = m.g.make(n->op, n->dtype, {ir::shape_node(m.g, dims)}, std::move(arg));
  return ir::unshard(m.g, local, s);
}

// ---- parts ----

const Node* select_multi(Multi& m, const Node* n) {
  const Node* x = n->src(0);
  if (!ir::is_device_tuple(ir::device(m.g, x))) return x;
  if (m.storage.flat_state(x) == x && x->op != Op::kMStack) return nullptr;
  return m.storage.part_of(x, n->as<int64_t>());
}

const Node* mstack_multi(Multi& m, const Node* n) {
  return m.storage.flat_state(n) == n ? nullptr
                                      : m.storage.stacked({n->src().begin(), n->src().end()});
}

// ---- the table ----

ir::RuleSet multi_rules(Multi& m) {
  ir::RuleSet rules;
  const auto on = [&](ir::OpSet ops, const char* name, const Node* (*rule)(Multi&, const Node*)) {
    rules.on(ops, name, [&m, rule](Graph&, const Node* n) { return rule(m, n); });
  };
  on({Op::kParam}, "param_multi", param_multi);
  on(ir::kElementwiseOps, "alu_multi", alu_multi);
  on({Op::kStack}, "stack_multi", stack_multi);
  on({Op::kIndex}, "index_multi", index_multi);
  on({Op::kReduce}, "reduce_multi", reduce_multi);
  on(ir::kMovementOps, "movement_multi", movement_multi);
  on({Op::kContiguous, Op::kContiguousBackward, Op::kDetach}, "mark_multi", mark_multi);
  on({Op::kStore}, "store_multi", store_multi);
  on({Op::kAfter}, "after_multi", after_multi);
  on({Op::kSink, Op::kCall}, "strip_unshard", strip_unshard);
  on({Op::kCopy}, "copy_multi", copy_multi);
  on({Op::kAllReduce}, "handle_allreduce", handle_allreduce);
  on({Op::kMSelect}, "select_multi", select_multi);
  on({Op::kMStack}, "mstack_multi", mstack_multi);
  return rules;
}

Status check_resolved(const Node* root) {
  for (const Node* n : ir::toposort(root)) {
    if (n->op != Op::kUnshard && n->op != Op::kAllReduce) continue;
    for (const Node* user : ir::toposort(root)) {
      const auto src = user->src();
      if (std::find(src.begin(), src.end(), n) == src.end()) continue;
      return fail(Errc::kUnsupported, strf("resolve_multi: %s of sharded %s has no rule",
                                           ir::op_name(user->op), ir::tensor_name(n).c_str()));
    }
  }
  return {};
}

}  // namespace

Result<const Node*> resolve_multi(Graph& g, const Node* sink, const ScheduleOptions& options) {
  if (!has_multi(g, sink)) return sink;
  RETURN_IF_ERROR(check_multi(g, sink));
  ir::RuleSet first;
  first.on({Op::kShrink}, "shrink_before_copy", shrink_before_copy, {Op::kCopy});
  const Node* root = ir::rewrite(g, sink, first);
  MultiStorage storage(g);
  Multi m{g, options, storage};
  root = ir::rewrite(g, root, multi_rules(m));
  if (g.failed()) return fail(g.status().error());
  RETURN_IF_ERROR(check_resolved(root));
  return root;
}

}  // namespace modeld::schedule
