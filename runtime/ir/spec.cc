#include "runtime/ir/spec.h"

#include <iterator>
#include <map>

#include "runtime/ir/derived.h"
#include "runtime/ir/print.h"
#include "runtime/ir/sharding.h"

namespace modeld::ir {
namespace {

// What is wrong with a node, or nullptr.
using Problem = const char*;

bool const_fits(const Node* n) {
  if (n->has<Invalid>()) return true;
  if (n->dtype == DType::kBool) return n->has<bool>();
  if (is_float(n->dtype)) return n->has<double>();
  if (!n->has<int64_t>()) return false;
  const int64_t v = n->as<int64_t>();
  return n->dtype == DType::kU64 || (v >= int_min(n->dtype) && v <= int_max(n->dtype));
}

bool type_matches(const Node* s, DType t) {
  return s->dtype == t || is_invalid(s);
}

Problem alu_problem(const Node* n) {
  if (op_arity(n->op) != static_cast<int>(n->nsrc)) return "wrong number of operands";
  if (n->op == Op::kWhere) {
    if (n->src(0)->dtype != DType::kBool) return "condition is not bool";
    return type_matches(n->src(1), n->dtype) && type_matches(n->src(2), n->dtype)
               ? nullptr
               : "arms differ from the result type";
  }
  if (kComparisonOps.has(n->op)) {
    if (n->dtype != DType::kBool) return "a comparison gives bool";
    return type_matches(n->src(0), n->src(1)->dtype) || is_invalid(n->src(1))
               ? nullptr
               : "operands differ in type";
  }
  if (n->op == Op::kShl || n->op == Op::kShr) {
    if (!is_int(n->dtype)) return "shift of something not integer";
    return type_matches(n->src(0), n->dtype) ? nullptr : "operand differs from the result type";
  }
  for (const Node* s : n->src()) {
    if (!type_matches(s, n->dtype)) return "operand differs from the result type";
  }
  const bool bits = n->op == Op::kAnd || n->op == Op::kOr || n->op == Op::kXor;
  const bool divides =
      n->op == Op::kCDiv || n->op == Op::kCMod || n->op == Op::kFloorDiv || n->op == Op::kFloorMod;
  if (bits && is_float(n->dtype)) return "bit operation on floats";
  if (divides && !is_int(n->dtype)) return "integer division of something not integer";
  if (n->op == Op::kFDiv && !is_float(n->dtype)) return "float division of something not float";
  return nullptr;
}

// What a state may be a state of: storage and views of it.
Problem after_problem(const Node* n) {
  static constexpr OpSet kStorage =
      kMovementOps | OpSet{Op::kBuffer, Op::kParam,   Op::kAfter,   Op::kIndex, Op::kBitCast,
                           Op::kMStack, Op::kMSelect, Op::kUnshard, Op::kDetach};
  if (n->nsrc == 0 || n->src(0)->dtype != n->dtype) return "must keep the type of its value";
  return kStorage.has(n->src(0)->op) ? nullptr : "is a state of something that is no storage";
}

Problem group_problem(const Node* n) {
  for (const Node* s : n->src()) {
    if (s->dtype != DType::kVoid && s->op != Op::kAfter) return "groups a value";
  }
  return nullptr;
}

Problem program_stages_problem(const Node* n) {
  static constexpr Op kStages[] = {Op::kSink, Op::kLinear, Op::kSource, Op::kBinary};
  if (n->nsrc == 0 || n->nsrc > std::size(kStages)) return "needs one to four stages";
  for (size_t i = 0; i < n->nsrc; ++i) {
    if (n->src(i)->op != kStages[i]) return "stages are not SINK, LINEAR, SOURCE, BINARY";
  }
  return nullptr;
}

Problem call_problem(const Node* n) {
  static constexpr OpSet kBodies = {Op::kSink, Op::kProgram,        Op::kLinear,
                                    Op::kCopy, Op::kCustomFunction, Op::kGetAddr};
  return n->nsrc > 0 && kBodies.has(n->src(0)->op) ? nullptr : "body is nothing that can be called";
}

// a, b, accumulator, then the loops the step closes (none once operands are vectors).
Problem wmma_problem(const Node* n) {
  if (!n->has<WmmaArg>() || n->nsrc < 3) return "needs two factors, an accumulator and a unit";
  if (n->src(2)->dtype != n->dtype) return "accumulator and result differ in type";
  for (const Node* r : n->src().subspan(3)) {
    if (r->op != Op::kRange) return "closes something that is not a range";
  }
  return nullptr;
}

Problem end_problem(const Node* n) {
  if (n->nsrc == 0) return "no body";
  for (const Node* r : n->src().subspan(1)) {
    if (r->op != Op::kRange) return "closes something that is not a range";
  }
  return nullptr;
}

// Rules every stage shares.
Problem shared_problem(const Node* n) {
  if (op_arity(n->op) >= 0 && op_arity(n->op) != static_cast<int>(n->nsrc))
    return "wrong number of sources";
  if (kAluOps.has(n->op)) return alu_problem(n);
  switch (n->op) {
    case Op::kConst:
      return const_fits(n) ? nullptr : "value does not fit the type";
    case Op::kRange:
      if (!n->has<RangeArg>() || n->nsrc == 0) return "needs a bound, an id and an axis type";
      return n->src(0)->dtype == n->dtype ? nullptr : "bound and range differ in type";
    case Op::kBuffer:
    case Op::kParam:
      return n->has<ParamArg>() ? nullptr : "needs storage facts";
    case Op::kReduce: {
      if (!n->has<ReduceArg>() || n->nsrc == 0 || !kReduceOps.has(n->as<ReduceArg>().op))
        return "needs a reduce op";
      return n->src(0)->dtype == n->dtype ? nullptr : "value and result differ in type";
    }
    case Op::kIndex:
      return n->nsrc > 0 ? nullptr : "needs something to index";
    case Op::kBitCast:
      return item_size(n->dtype) > 0 && item_size(n->src(0)->dtype) > 0
                 ? nullptr
                 : "between types that have no size";
    case Op::kEnd:
      return end_problem(n);
    case Op::kAfter:
      return after_problem(n);
    case Op::kGroup:
      return group_problem(n);
    case Op::kCall:
      return call_problem(n);
    case Op::kProgram:
      return program_stages_problem(n);
    case Op::kWmma:
      return wmma_problem(n);
    default:
      return nullptr;
  }
}

bool is_address(const Node* n) {
  return n->op == Op::kIndex || n->op == Op::kShrink;
}

Problem address_problem(const Node* n) {
  if (n->nsrc == 0) return "no address";
  return is_address(n->src(0)) ? nullptr : "address is neither INDEX nor SHRINK";
}

Problem tuple_problem(const Node* n) {
  if (!n->has<int64_t>()) return "needs an element number";
  const Node* t = n->src(0);
  if (t->op == Op::kFunction && t->nsrc > 0) t = t->src(0);
  const auto i = n->as<int64_t>();
  return t->op == Op::kTuple && i >= 0 && i < static_cast<int64_t>(t->nsrc)
             ? nullptr
             : "element of a TUPLE that has none such";
}

Problem unshard_problem(const Node* n) {
  if (!n->has<Ints>() || n->nsrc < 2 || n->as<Ints>().size() + 1 != n->nsrc)
    return "needs one coordinate per sharded axis";
  const Ints& axes = n->as<Ints>();
  for (size_t i = 1; i < axes.size(); ++i) {
    if (axes[i - 1] >= axes[i]) return "axes are not sorted";
  }
  return nullptr;
}

// Values on several devices.
Problem multi_problem(Graph& g, const Node* n) {
  switch (n->op) {
    case Op::kAllReduce:
      if (!n->has<AllReduceArg>() || !kReduceOps.has(n->as<AllReduceArg>().op))
        return "needs a reduce op and a device";
      return is_weak(n->dtype) ? "transfer of a weak type" : nullptr;
    case Op::kCopy:
      return is_weak(n->dtype) ? "copy of a weak type" : nullptr;
    case Op::kUnshard:
      return unshard_problem(n);
    case Op::kMSelect:
      if (!n->has<int64_t>()) return "needs the number of a device";
      if (n->as<int64_t>() < 0 || n->as<int64_t>() >= device_count(device(g, n->src(0))))
        return "part of a device that is not in the tuple";
      return sharding(g, n->src(0)).empty() ? nullptr : "part of a global value: select locally";
    case Op::kMStack:
      for (const Node* s : n->src()) {
        if (device_count(device(g, s)) != 1) return "a part is not on exactly one device";
      }
      return n->nsrc > 1 ? nullptr : "needs one part per device";
    default:
      return nullptr;
  }
}

size_t length_of(const Node* dims) {
  return dims->op == Op::kStack ? dims->nsrc : 1;
}

Problem stack_problem(Graph& g, const Node* n) {
  for (const Node* s : n->src()) {
    if (s->dtype != n->dtype && !is_invalid(s)) return "elements differ in type";
    if (shape(g, s) != shape(g, n->src(0))) return "elements differ in shape";
  }
  return nullptr;
}

Problem movement_problem(const Node* n) {
  if ((n->op == Op::kPermute || n->op == Op::kFlip) && !n->has<Ints>())
    return "needs a list of axes";
  if ((n->op == Op::kPad || n->op == Op::kShrink) && length_of(n->src(1)) != length_of(n->src(2)))
    return "needs as many sizes as starts";
  return n->src(0)->dtype == n->dtype ? nullptr : "must keep the type of its value";
}

Problem storage_problem(const Node* n) {
  const auto& arg = n->as<ParamArg>();
  if (arg.addrspace == AddrSpace::kAlu)
    return arg.device.empty() ? nullptr : "a variable on a device";
  if (n->op == Op::kBuffer && arg.addrspace == AddrSpace::kGlobal && arg.device.empty())
    return "global storage without a device";
  return is_weak(n->dtype) ? "storage of a weak type" : nullptr;
}

Problem tensor_problem(Graph& g, const Node* n) {
  if (const Problem p = multi_problem(g, n)) return p;
  static constexpr OpSet kForbidden = {Op::kLoad,  Op::kSpecial, Op::kBarrier, Op::kIf,
                                       Op::kEndIf, Op::kStage,   Op::kIns};
  if (kForbidden.has(n->op)) return "belongs to a later stage";
  if (n->op == Op::kGetTuple) return tuple_problem(n);
  if (n->op == Op::kFunction && (n->nsrc == 0 || n->src(0)->op != Op::kTuple))
    return "body is not a TUPLE";
  if (n->op == Op::kCopy && !n->has<std::string>()) return "needs a device";
  if (n->op == Op::kStore && n->nsrc < 2) return "needs a target and a value";
  if (n->op == Op::kReduce && (n->nsrc != 1 || n->as<ReduceArg>().axes < 0))
    return "needs a number of leading axes";
  if (n->op == Op::kStack) return stack_problem(g, n);
  if (kMovementOps.has(n->op)) return movement_problem(n);
  return n->op == Op::kBuffer || n->op == Op::kParam ? storage_problem(n) : nullptr;
}

// The only store between kernels is that of a bound variable's value.
bool is_bound_store(const Node* n) {
  const Node* to = n->nsrc == 2 ? n->src(0) : nullptr;
  return to != nullptr && to->op == Op::kParam && to->as<ParamArg>().addrspace == AddrSpace::kAlu &&
         is_const(n->src(1));
}

bool is_device_loop(const Node* n) {
  return n->op == Op::kRange && n->has<RangeArg>() && n->as<RangeArg>().type == AxisType::kDevice;
}

constexpr Problem kOpenRange = "a loop left open between kernels";

Problem kernel_graph_problem(const Node* n) {
  static constexpr OpSet kAllowed = {
      Op::kSink,   Op::kConst,   Op::kStack, Op::kParam, Op::kBuffer, Op::kReshape, Op::kBitCast,
      Op::kMStack, Op::kMSelect, Op::kCall,  Op::kAfter, Op::kShrink, Op::kUnshard};
  switch (n->op) {
    case Op::kRange:
      return is_device_loop(n) ? nullptr : kOpenRange;
    case Op::kEnd:
      return n->src(0)->op == Op::kCall ? nullptr : "ends something that is no kernel";
    case Op::kStore:
      return is_bound_store(n) ? nullptr : "a store outside of kernels";
    case Op::kStack:
      for (const Node* s : n->src()) {
        if (!is_const(s) && s->op != Op::kParam && s->op != Op::kAfter)
          return "of something that is neither constant nor variable";
      }
      return nullptr;
    case Op::kBuffer: {
      const AddrSpace space = n->as<ParamArg>().addrspace;
      const bool visible = space == AddrSpace::kGlobal || space == AddrSpace::kAlu;
      return visible ? nullptr : "storage of one kernel between kernels";
    }
    default:
      return kAllowed.has(n->op) ? nullptr : "not allowed between kernels";
  }
}

// An index that is outside of its storage whatever the loops do. Intervals only: an index that may
// be inside is left to the gates.
Problem bounds_problem(Graph& g, const Node* address) {
  if (!is_address(address)) return nullptr;
  const Node* storage = address->src(0);
  while (storage->op == Op::kAfter) storage = storage->src(0);
  const bool flat = storage->has<ParamArg>() && storage->nsrc == 1 && is_const(storage->src(0));
  if (!flat || address->nsrc < 2 || address->src(1)->op == Op::kWhere) return nullptr;
  const Bounds at = bounds(g, address->src(1));
  const int64_t size = int_value(storage->src(0)).value_or(INT64_MAX);
  return at.vmin >= size || at.vmax < 0 ? "index is outside of its storage" : nullptr;
}

Problem kernel_problem(Graph& g, const Node* n) {
  if (kMovementOps.has(n->op)) return "movement op inside a kernel";
  if (n->op == Op::kIndex) return bounds_problem(g, n);
  if (n->op == Op::kBuffer && n->as<ParamArg>().addrspace == AddrSpace::kGlobal)
    return "storage must be a PARAM inside a kernel";
  if (n->op == Op::kStore && (n->nsrc < 2 || address_problem(n) != nullptr))
    return "store needs INDEX and a value";
  static constexpr OpSet kForbidden = {Op::kLoad, Op::kSpecial,  Op::kCopy, Op::kContiguous,
                                       Op::kCall, Op::kFunction, Op::kStage};
  if (kForbidden.has(n->op)) return "does not belong into a kernel before lowering";
  return nullptr;
}

bool const_under_cast(const Node* n, const std::map<const Node*, bool>& only_casts) {
  const auto it = only_casts.find(n);
  return n->op == Op::kConst && it != only_casts.end() && it->second;
}

// LOAD(address[, alt, gate]), STORE(address, value[, gate]): a gate may keep the access away.
Problem access_problem(Graph& g, const Node* n) {
  if (const Problem p = address_problem(n)) return p;
  const bool gated = n->nsrc > (n->op == Op::kLoad ? 1U : 2U);
  return gated ? nullptr : bounds_problem(g, n->src(0));
}

Problem program_problem(Graph& g, const Node* n, const std::map<const Node*, bool>& only_casts) {
  if (kMovementOps.has(n->op) && n->op != Op::kShrink) return "movement op in a program";
  if (n->has<Invalid>() && n->op == Op::kConst) return "Invalid in a program";
  // Shapes of storage are weak counts, not values.
  if (is_weak(n->dtype) && !const_under_cast(n, only_casts)) return "weak type in a program";
  if (n->op == Op::kBuffer && n->as<ParamArg>().addrspace == AddrSpace::kGlobal)
    return "global buffer in a program";
  if (n->op == Op::kSpecial && n->dtype != DType::kI32) return "hardware index is not i32";
  if (n->op == Op::kIf && (n->nsrc < 1 || n->src(0)->dtype != DType::kBool))
    return "condition is not bool";
  if (n->op == Op::kEndIf && n->src(0)->op != Op::kIf) return "closes something that is not IF";
  if (n->op == Op::kIf && (n->nsrc != 2 || !is_address(n->src(1))))
    return "needs the address it guards";
  if (n->op == Op::kLoad || n->op == Op::kStore) return access_problem(g, n);
  if (n->op == Op::kWmma && n->nsrc != 3) return "still closes loops";
  static constexpr OpSet kForbidden = {Op::kReduce, Op::kStage,    Op::kContiguous, Op::kCopy,
                                       Op::kCall,   Op::kFunction, Op::kFloorDiv,   Op::kFloorMod};
  return kForbidden.has(n->op) ? "belongs to an earlier stage" : nullptr;
}

template <class Check>
Status verify(Graph& g, const Node* root, const char* stage, bool enter_calls, Check check) {
  RETURN_IF_ERROR(g.status());
  size_t index = 0;
  for (const Node* n : toposort(root, enter_calls)) {
    Problem p = shared_problem(n);
    if (p == nullptr) p = check(n);
    if (p != nullptr) {
      std::string sources;
      for (const Node* s : n->src())
        sources += strf(" %s:%s", op_name(s->op), dtype_name(s->dtype));
      return fail(p == kOpenRange ? Fault::kOpenRange : Fault::kSpecViolation,
                  strf("%s spec: node %zu %s:%s %s (sources:%s)", stage, index, op_name(n->op),
                       dtype_name(n->dtype), p, sources.c_str()));
    }
    ++index;
  }
  return {};
}

}  // namespace

Status verify_tensor(Graph& g, const Node* root) {
  RETURN_IF_ERROR(
      verify(g, root, "tensor", false, [&g](const Node* n) { return tensor_problem(g, n); }));
  shape(g, root);  // shape rules latch their own errors
  return g.status();
}

Status verify_kernel_graph(Graph& g, const Node* root) {
  return verify(g, root, "kernel graph", false, kernel_graph_problem);
}
Status verify_kernel(Graph& g, const Node* sink) {
  return verify(g, sink, "kernel", false, [&g](const Node* n) { return kernel_problem(g, n); });
}

Status verify_program(Graph& g, const Node* sink) {
  // Weak constants may stand as sizes of storage and directly under a CAST.
  std::map<const Node*, bool> only_casts;
  for (const Node* n : toposort(sink)) {
    for (size_t i = 0; i < n->nsrc; ++i) {
      const bool size =
          (n->has<ParamArg>() || n->op == Op::kShrink) && (n->op != Op::kShrink || i == 2);
      const bool allowed = n->op == Op::kCast || size;
      auto [it, fresh] = only_casts.emplace(n->src(i), allowed);
      if (!fresh) it->second = it->second && allowed;
    }
  }
  return verify(g, sink, "program", false,
                [&](const Node* n) { return program_problem(g, n, only_casts); });
}

}  // namespace modeld::ir
