#include "runtime/schedule/resolve_function.h"

#include <set>
#include <string>

#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/ir/sharding.h"
#include "runtime/schedule/precompiled_call.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeMap;
using ir::NodeVec;
using ir::Op;

namespace {

std::string shape_text(const std::vector<int64_t>& dims) {
  std::string text = "(";
  for (int64_t d : dims)
    text += strf("%s%lld", text.size() > 1 ? "," : "", static_cast<long long>(d));
  return text + ")";
}

using ir::Fault;

Status check_argument(Graph& g, const Node* param, const Node* arg) {
  const auto slot = static_cast<long long>(param->as<ir::ParamArg>().slot);
  const std::vector<int64_t> want = ir::max_shape(g, param);
  const std::vector<int64_t> have = ir::max_shape(g, arg);
  if (want != have) {
    return fail(Fault::kFunctionShape,
                strf("function argument %lld: shape %s, the parameter has %s", slot,
                     shape_text(have).c_str(), shape_text(want).c_str()));
  }
  if (param->dtype != arg->dtype) {
    return fail(Fault::kFunctionDtype,
                strf("function argument %lld: dtype %s, the parameter has %s", slot,
                     ir::dtype_name(arg->dtype), ir::dtype_name(param->dtype)));
  }
  if (ir::sharding(g, param) != ir::sharding(g, arg)) {
    const auto axis = [&](const Node* n) { return ir::shard_axis(g, n).value_or(-1); };
    return fail(Fault::kFunctionAxis,
                strf("function argument %lld: sharded along axis %lld, the parameter along %lld "
                     "(-1: whole)",
                     slot, static_cast<long long>(axis(arg)), static_cast<long long>(axis(param))));
  }
  return {};
}

bool is_formal(const Node* n) {
  return n->op == Op::kParam && n->as<ir::ParamArg>().slot >= 0;
}

NodeVec formals_of(const Node* function) {
  NodeVec formals;
  for (const Node* p : ir::toposort(function->src(0))) {
    if (is_formal(p)) formals.push_back(p);
  }
  return formals;
}

bool is_function(const Node* n) {
  return n->op == Op::kFunction && n->nsrc > 0 && n->src(0)->op == Op::kTuple;
}

}  // namespace

Status check_function(Graph& g, const Node* function, bool strict) {
  if (!is_function(function)) {
    return fail(Errc::kInvalid, "resolve_function: needs a FUNCTION with a TUPLE body");
  }
  const size_t count = function->nsrc - 1;
  std::set<int64_t> slots;
  for (const Node* p : formals_of(function)) {
    const int64_t slot = p->as<ir::ParamArg>().slot;
    if (slot >= static_cast<int64_t>(count)) {
      return fail(Fault::kFunctionSlots, strf("function parameter %lld: only %zu arguments",
                                              static_cast<long long>(slot), count));
    }
    RETURN_IF_ERROR(check_argument(g, p, function->src(static_cast<size_t>(slot) + 1)));
    slots.insert(slot);
  }
  if (strict && slots.size() != count) {
    return fail(Fault::kFunctionSlots,
                strf("function: %zu arguments for %zu used parameters", count, slots.size()));
  }
  return {};
}

Result<const Node*> resolve_function(Graph& g, const Node* function, bool strict) {
  RETURN_IF_ERROR(check_function(g, function, strict));
  NodeMap map;
  for (const Node* p : formals_of(function)) {
    map[p] = function->src(static_cast<size_t>(p->as<ir::ParamArg>().slot) + 1);
  }
  return ir::substitute(g, function->src(0), map);
}

namespace {

// GETTUPLE(TUPLE, i) or GETTUPLE(FUNCTION, i); nullptr: stays, or an error is latched.
const Node* pick(Graph& g, const Node* n) {
  const Node* tuple = n->src(0);
  if (tuple->op == Op::kFunction) {
    if (is_precompiled(tuple)) return nullptr;
    const auto inlined = resolve_function(g, tuple);
    if (!inlined.ok()) {
      const Fault fault = ir::fault_of(inlined.error());
      fault == Fault::kNone ? g.fail(inlined.error().code, inlined.error().what)
                            : g.fail(fault, inlined.error().what);
      return nullptr;
    }
    tuple = *inlined;
  }
  if (tuple->op != Op::kTuple) return nullptr;
  const int64_t i = n->as<int64_t>();
  if (i < 0 || i >= static_cast<int64_t>(tuple->nsrc)) {
    g.fail(Fault::kFunctionSlots,
           strf("function result %lld of %u", static_cast<long long>(i), tuple->nsrc));
    return nullptr;
  }
  return tuple->src(static_cast<size_t>(i));
}

}  // namespace

Result<const Node*> resolve_functions(Graph& g, const Node* root) {
  ir::RuleSet rules;
  rules.on({Op::kGetTuple}, "get_tuple", pick);
  const Node* result = ir::rewrite(g, root, rules);
  if (g.failed()) return fail(g.status().error());
  for (const Node* n : ir::toposort(result)) {
    if (n->op == Op::kFunction || n->op == Op::kTuple) {
      return fail(Fault::kValueScheduled,
                  "a FUNCTION is a value: use its results through GETTUPLE");
    }
  }
  return result;
}

}  // namespace modeld::schedule
