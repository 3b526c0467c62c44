#include "runtime/schedule/create_linear_with_vars.h"

#include <set>

#include "runtime/schedule/assert_all_same_devices.h"
#include "runtime/schedule/copy_from_store.h"
#include "runtime/schedule/expr_util.h"
#include "runtime/schedule/lower_sink_to_linear.h"
#include "runtime/schedule/resolve_linear_call.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

bool is_variable(const Node* n) {
  return n->op == Op::kParam && n->as<ir::ParamArg>().addrspace == ir::AddrSpace::kAlu;
}

bool is_bound_variable(const Node* n) {
  return n->op == Op::kAfter && n->nsrc == 2 && is_variable(n->src(0)) &&
         n->src(1)->op == Op::kStore && n->src(1)->nsrc == 2 && n->src(1)->src(0) == n->src(0) &&
         ir::int_value(n->src(1)->src(1)).has_value();
}

int64_t bound_value(const Node* n) {
  return ir::int_value(n->src(1)->src(1)).value_or(0);
}

Result<const Node*> bind(Graph& g, const Node* variable, int64_t value) {
  if (!is_variable(variable)) {
    return fail(Errc::kInvalid, strf("bind: %s is not a variable", ir::op_name(variable->op)));
  }
  const auto& v = variable->as<ir::ParamArg>();
  if (value < v.vmin || value > v.vmax) {
    return fail(ir::Fault::kBindRange,
                strf("bind: %s = %lld is outside [%lld, %lld]", v.name.c_str(),
                     static_cast<long long>(value), static_cast<long long>(v.vmin),
                     static_cast<long long>(v.vmax)));
  }
  if (v.multiple_of > 1 && value % v.multiple_of != 0) {
    return fail(ir::Fault::kBindMultiple,
                strf("bind: %s = %lld is not a multiple of %lld", v.name.c_str(),
                     static_cast<long long>(value), static_cast<long long>(v.multiple_of)));
  }
  const Node* number = ir::const_int(g, value, variable->dtype);
  const Node* store = g.make(Op::kStore, ir::DType::kVoid, {variable, number});
  return g.make(Op::kAfter, variable->dtype, {variable, store});
}

namespace {

std::set<std::string> used_variables(const Node* linear) {
  std::set<std::string> names;
  for (const Node* n : ir::toposort(linear, true)) {
    if (is_variable(n)) names.insert(n->as<ir::ParamArg>().name);
  }
  return names;
}

// The bindings the kernels use, each name with one value.
Result<VarBinds> used_binds(const Node* linear, std::span<const Node* const> args) {
  const std::set<std::string> used = used_variables(linear);
  VarBinds vars;
  for (const Node* a : args) {
    if (!is_bound_variable(a)) continue;
    const std::string& name = a->src(0)->as<ir::ParamArg>().name;
    if (!used.contains(name)) continue;
    const auto [it, is_new] = vars.emplace(name, bound_value(a));
    if (!is_new && it->second != bound_value(a)) {
      return fail(ir::Fault::kBindMismatch,
                  strf("bind mismatch on %s, %lld != %lld", name.c_str(),
                       static_cast<long long>(it->second), static_cast<long long>(bound_value(a))));
    }
  }
  return vars;
}

}  // namespace

Result<LinearWithVars> create_linear_with_vars(Graph& g,
                                               const Node* call,
                                               const ScheduleOptions& options,
                                               const Capture& capture) {
  const auto args = call->src().subspan(1);
  const auto lowered = lower_sink_to_linear(g, call->src(0), options);
  if (!lowered.ok()) return fail(name_arguments(lowered.error(), args));
  const Node* linear = *lowered;
  NodeVec src{linear};
  src.insert(src.end(), args.begin(), args.end());
  ASSIGN_OR_RETURN(linear, resolve_linear_call(g, g.make(Op::kCall, ir::DType::kVoid, src)));
  linear = copy_from_store(g, linear);
  RETURN_IF_ERROR(assert_all_same_devices(g, linear));
  LinearWithVars out;
  out.linear = linear;
  ASSIGN_OR_RETURN(out.vars, used_binds(linear, args));
  if (capture.active()) {
    RETURN_IF_ERROR(capture.capturer->add_linear(out.linear, out.vars));
    out.linear = g.make(Op::kLinear, ir::DType::kVoid, {});
  }
  return out;
}

}  // namespace modeld::schedule
