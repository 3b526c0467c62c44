#include "runtime/schedule/precompiled_call.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/ir/sharding.h"
#include "runtime/schedule/byte_view.h"
#include "runtime/schedule/create_schedule.h"
#include "runtime/schedule/expr_util.h"
#include "runtime/schedule/resolve_function.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeMap;
using ir::NodeVec;
using ir::Op;

namespace {

const Node* below_reshape(const Node* n) {
  while (n->op == Op::kReshape || n->op == Op::kDetach) n = n->src(0);
  return n;
}

bool is_formal(const Node* n) {
  return n->op == Op::kParam && n->as<ir::ParamArg>().slot >= 0;
}

class PrecompiledCall {
 public:
  PrecompiledCall(Graph& g, const Node* function, const ScheduleOptions& options)
      : g_(g), function_(function), options_(options) {}

  Result<std::vector<CallResult>> run() {
    RETURN_IF_ERROR(check_function(g_, function_, false));
    for (const Node* a : function_->src().subspan(1)) args_.push_back(a);
    ASSIGN_OR_RETURN(const Node* body, inner_calls(function_->src(0)));
    body = close(body);
    for (const Node* v : body->src()) result(v);
    const Node* sink = ir::sink(g_, effects_);
    NodeVec src{sink};
    src.insert(src.end(), args_.begin(), args_.end());
    const Node* call = g_.make(Op::kCall, ir::DType::kVoid, src);
    std::vector<CallResult> out;
    for (const Pending& p : pending_) out.push_back(finish(p, call));
    return out;
  }

 private:
  // A result before the call node exists.
  struct Pending {
    const Node* shaped = nullptr;  // inside the body: has the result's shape
    const Node* outer = nullptr;   // the argument or new buffer behind it
    bool stored = false, written = false;
    int64_t arg = -1;
  };

  // Precompiled FUNCTIONs inside the body write temporaries of the body: templates that every
  // instantiation makes anew. Numbered by position, so that the body's key stays the same.
  Result<const Node*> inner_calls(const Node* body) {
    NodeMap map;
    int64_t number = 0;
    for (const Node* n : ir::toposort(body)) {
      if (n->op != Op::kFunction || !is_precompiled(n)) continue;
      NodeVec src(n->src().begin(), n->src().end());
      for (const Node*& s : src) s = s == n->src(0) ? s : ir::substitute(g_, s, map);
      ASSIGN_OR_RETURN(const std::vector<CallResult> results,
                       precompiled_call(g_, g_.with_src(n, src), options_));
      for (const CallResult& r : results) name_template(r, &number);
      for (const Node* user : ir::toposort(body)) {
        if (user->op != Op::kGetTuple || user->src(0) != n) continue;
        const CallResult& r = results.at(static_cast<size_t>(user->as<int64_t>()));
        map[user] = ir::substitute(g_, r.value, templates_);
      }
    }
    return map.empty() ? body : ir::substitute(g_, body, map);
  }

  void name_template(const CallResult& r, int64_t* number) {
    if (r.storage == nullptr) return;
    const Node* buffer = base_buffer(r.value);
    ir::ParamArg arg = buffer->as<ir::ParamArg>();
    arg.slot = (*number)++;
    arg.name = strf("t%lld", static_cast<long long>(arg.slot));
    named_.push_back(g_.with_arg(buffer, std::move(arg)));
    templates_[buffer] = named_.back();
  }

  // Buffers the body names become arguments: a body's key must not depend on them. Variables take
  // the names that nested LINEARs bind by position.
  const Node* close(const Node* body) {
    NodeMap map;
    for (const Node* n : ir::toposort(body)) {
      if (is_formal(n) && is_scalar_param(n)) {
        ir::ParamArg arg = n->as<ir::ParamArg>();
        arg.name = strf("p%lld", static_cast<long long>(arg.slot));
        map[n] = g_.with_arg(n, std::move(arg));
      }
      const bool mine = std::find(named_.begin(), named_.end(), n) != named_.end();
      if (n->op != Op::kBuffer || mine || n->as<ir::ParamArg>().addrspace != ir::AddrSpace::kGlobal)
        continue;
      map[n] = formal_of(n);
    }
    return map.empty() ? body : ir::substitute(g_, body, map);
  }

  const Node* formal_of(const Node* buffer) {
    ir::ParamArg arg = buffer->as<ir::ParamArg>();
    arg.slot = static_cast<int64_t>(args_.size());
    arg.name.clear();
    args_.push_back(buffer);
    return g_.make(Op::kParam, buffer->dtype, buffer->src(), std::move(arg));
  }

  void result(const Node* v) {
    Pending p;
    const bool plain = v->op == Op::kContiguous && !v->has<ir::Opts>();
    const Node* value = plain ? v->src(0) : v;
    const Node* below = below_reshape(value);
    p.shaped = value;
    if (!plain && is_state(below)) {
      rebind(below, &p);
    } else {
      store(value, &p);
    }
    pending_.push_back(p);
  }

  // The result is storage already: a parameter, or one the body has written.
  void rebind(const Node* state, Pending* p) {
    const Node* formal = base_buffer(state);
    if (!is_formal(formal)) return store(p->shaped, p);
    p->arg = formal->as<ir::ParamArg>().slot;
    p->outer = args_[static_cast<size_t>(p->arg)];
    p->written = state->op == Op::kAfter;
    if (p->written) effects_.push_back(state);
  }

  void store(const Node* value, Pending* p) {
    std::string device = ir::device(g_, value);
    if (device.empty()) device = ir::device(g_, function_);
    if (device.empty()) device = options_.device;
    p->outer = ir::buffer(g_, g_.fresh(), ir::strong(value->dtype), ir::local_count(g_, value),
                          ir::AddrSpace::kGlobal, device);
    p->stored = true;
    const Node* formal = formal_of(p->outer);
    const Node*& before = stored_[value];
    const Node* source = before == nullptr ? ir::cast(g_, value, formal->dtype) : before;
    const Node* target = in_shape_of(g_, formal, value);
    const Node* write = g_.make(Op::kStore, ir::DType::kVoid, {target, source});
    const Node* state = g_.make(Op::kAfter, formal->dtype, {formal, write});
    if (before == nullptr) before = in_shape_of(g_, state, value);
    effects_.push_back(state);
  }

  CallResult finish(const Pending& p, const Node* call) {
    // The shape in terms of the caller's variables.
    NodeMap formals;
    for (const Node* n : ir::toposort(p.shaped)) {
      if (!is_formal(n)) continue;
      const auto slot = static_cast<size_t>(n->as<ir::ParamArg>().slot);
      if (slot + 1 < function_->nsrc) formals[n] = function_->src(slot + 1);
    }
    const Node* shaped = ir::substitute(g_, p.shaped, formals);
    CallResult r;
    if (p.stored) {
      const Node* state = g_.make(Op::kAfter, p.outer->dtype, {p.outer, call});
      r.value = in_shape_of(g_, state, shaped);
      r.storage = in_shape_of(g_, p.outer, shaped);
      return r;
    }
    const Node* state = p.written ? g_.make(Op::kAfter, p.outer->dtype, {p.outer, call}) : p.outer;
    r.written_arg = p.written ? p.arg : -1;
    r.value = in_shape_of(g_, state, shaped);
    return r;
  }

  Graph& g_;
  const Node* function_;
  const ScheduleOptions& options_;
  NodeVec args_, effects_;
  NodeVec named_;      // template buffers of this body
  NodeMap templates_;  // buffers of inner calls -> named_
  std::unordered_map<const Node*, const Node*> stored_;
  std::vector<Pending> pending_;
};

}  // namespace

bool is_precompiled(const Node* function) {
  return function->op == Op::kFunction && function->has<bool>() && function->as<bool>();
}

std::vector<size_t> written_args(const Node* function) {
  std::set<size_t> args;
  for (const Node* n : ir::toposort(function->src(0))) {
    if (n->op != Op::kAfter || is_scalar_param(n)) continue;
    const Node* formal = base_buffer(n);
    if (!is_formal(formal)) continue;
    const auto slot = static_cast<size_t>(formal->as<ir::ParamArg>().slot);
    if (slot + 1 < function->nsrc) args.insert(slot);
  }
  return {args.begin(), args.end()};
}

Result<std::vector<CallResult>> precompiled_call(Graph& g,
                                                 const Node* function,
                                                 const ScheduleOptions& options) {
  return PrecompiledCall(g, function, options).run();
}

const Node* in_shape_of(Graph& g, const Node* flat, const Node* x) {
  const std::vector<int64_t> dims = ir::local_shape(g, x);
  const Node* view = g.make(Op::kReshape, flat->dtype, {flat, ir::shape_node(g, dims)});
  if (!is_symbolic(g, x)) return ir::unshard(g, view, ir::sharding(g, x));
  const std::vector<int64_t> starts(dims.size(), 0);
  const ir::Shape shape = ir::shape(g, x);
  const Node* sizes = g.make(Op::kStack, ir::DType::kWeakInt, shape);
  return g.make(Op::kShrink, flat->dtype, {view, ir::shape_node(g, starts), sizes});
}

}  // namespace modeld::schedule
