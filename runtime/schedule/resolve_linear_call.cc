#include "runtime/schedule/resolve_linear_call.h"

#include <string>
#include <unordered_map>

#include "runtime/ir/rewrite.h"
#include "runtime/schedule/create_linear_with_vars.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeMap;
using ir::NodeVec;
using ir::Op;

namespace {

using Scope = std::unordered_map<std::string, const Node*>;  // "p3" -> variable; lookups only

constexpr int kMaxDepth = 64;  // nested LINEARs; deeper is a graph that contains itself

class Resolver {
 public:
  explicit Resolver(Graph& g) : g_(g) {}

  Status run(const Node* linear, const NodeVec& args, const Scope& scope, int depth) {
    if (depth > kMaxDepth) return fail(Errc::kInvalid, "resolve_linear_call: nested too deeply");
    NodeMap templates;  // fresh temporaries of this instantiation
    for (const Node* item : linear->src()) {
      RETURN_IF_ERROR(run_item(item, args, scope, &templates, depth));
    }
    return {};
  }

  NodeVec items;

 private:
  Status run_item(
      const Node* item, const NodeVec& args, const Scope& scope, NodeMap* templates, int depth) {
    if (item->op != Op::kCall) {
      return fail(Errc::kInternal, strf("resolve_linear_call: a LINEAR holds %s, only calls are "
                                        "possible",
                                        ir::op_name(item->op)));
    }
    NodeVec own;
    for (const Node* a : item->src().subspan(1)) {
      ASSIGN_OR_RETURN(const Node* r, resolve_arg(a, args, scope, templates));
      own.push_back(r);
    }
    const Node* body = item->src(0);
    if (body->op == Op::kLinear) {
      Scope inner = scope;
      bind_positions(own, &inner);
      return run(body, own, inner, depth + 1);
    }
    NodeVec src{resolve_body(body, scope)};
    src.insert(src.end(), own.begin(), own.end());
    items.push_back(g_.make(Op::kCall, ir::DType::kVoid, src));
    return {};
  }

  Result<const Node*> resolve_arg(const Node* a,
                                  const NodeVec& args,
                                  const Scope& scope,
                                  NodeMap* templates) {
    if (is_variable(a)) {
      const auto it = scope.find(a->as<ir::ParamArg>().name);
      return it == scope.end() ? a : it->second;
    }
    if (a->op == Op::kParam) {
      const int64_t slot = a->as<ir::ParamArg>().slot;
      if (slot < 0) return a;
      if (slot >= static_cast<int64_t>(args.size())) {
        return fail(ir::Fault::kFunctionSlots,
                    strf("resolve_linear_call: slot %lld of %zu arguments",
                         static_cast<long long>(slot), args.size()));
      }
      return args[static_cast<size_t>(slot)];
    }
    if (a->op == Op::kBuffer) {
      const Node*& fresh = (*templates)[a];
      if (fresh == nullptr) {
        ir::ParamArg arg = a->as<ir::ParamArg>();
        arg.slot = g_.fresh();
        arg.name.clear();  // names number templates
        fresh = g_.with_arg(a, std::move(arg));
      }
      return fresh;
    }
    NodeVec src;
    for (const Node* s : a->src()) {
      ASSIGN_OR_RETURN(const Node* r, resolve_arg(s, args, scope, templates));
      src.push_back(r);
    }
    return src.empty() ? a : g_.with_src(a, src);
  }

  const Node* resolve_body(const Node* body, const Scope& scope) {
    if (scope.empty()) return body;
    NodeMap map;
    for (const Node* n : ir::toposort(body, true)) {
      if (!is_variable(n)) continue;
      const auto it = scope.find(n->as<ir::ParamArg>().name);
      if (it != scope.end()) map[n] = it->second;
    }
    return map.empty() ? body : ir::substitute(g_, body, map, {.enter_calls = true});
  }

 public:
  static void bind_positions(const NodeVec& args, Scope* scope) {
    for (size_t i = 0; i < args.size(); i++) {
      const Node* a = args[i];
      if (is_bound_variable(a)) a = a->src(0);
      if (is_variable(a)) (*scope)[strf("p%zu", i)] = a;
    }
  }

 private:
  Graph& g_;
};

}  // namespace

Result<const Node*> resolve_linear_call(Graph& g, const Node* call) {
  const Node* linear = call->src(0);
  if (call->op != Op::kCall || linear->op != Op::kLinear) {
    return fail(Errc::kInvalid,
                strf("resolve_linear_call: body is %s, not LINEAR", ir::op_name(linear->op)));
  }
  const NodeVec args(call->src().begin() + 1, call->src().end());
  Scope scope;
  Resolver::bind_positions(args, &scope);
  Resolver r(g);
  RETURN_IF_ERROR(r.run(linear, args, scope, 0));
  return g.make(Op::kLinear, ir::DType::kVoid, r.items);
}

}  // namespace modeld::schedule
