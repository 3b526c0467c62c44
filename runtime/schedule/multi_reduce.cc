// REDUCE of a sharded value: local when the sharded axes stay, local and then ALLREDUCE when they
// are reduced away.
#include <algorithm>

#include "runtime/ir/derived.h"
#include "runtime/schedule/multi.h"

namespace modeld::schedule {

using ir::DType;
using ir::Node;
using ir::Op;

namespace {

// ALLREDUCE_CAST: the half-precision type the reduced value was cast from, so that half the bytes
// travel; kVoid = none.
DType narrow_type(const Node* value) {
  while (ir::kMovementOps.has(value->op)) value = value->src(0);
  if (value->op != Op::kCast) return DType::kVoid;
  const DType from = value->src(0)->dtype;
  return ir::is_narrow_float(from) ? from : DType::kVoid;
}

}  // namespace

const Node* reduce_multi(Multi& m, const Node* n) {
  const Node* x = n->src(0);
  if (x->op != Op::kUnshard) return nullptr;
  const auto& arg = n->as<ir::ReduceArg>();
  ir::Ints axes = x->as<ir::Ints>();
  const auto reduced =
      std::count_if(axes.begin(), axes.end(), [&](int64_t a) { return a < arg.axes; });
  const Node* local = m.g.make(Op::kReduce, n->dtype, {x->src(0)}, arg);
  if (reduced == 0) {
    for (int64_t& a : axes) a -= arg.axes;
    return ir::unshard(m.g, local, {axes, {x->src().begin() + 1, x->src().end()}});
  }
  const std::string& devices = ir::device(m.g, x);
  const DType narrow = m.options.allreduce_cast ? narrow_type(x->src(0)) : DType::kVoid;
  if (narrow != DType::kVoid) local = ir::cast(m.g, local, narrow);
  const Node* all =
      m.g.make(Op::kAllReduce, local->dtype, {local}, ir::AllReduceArg{arg.op, devices});
  return ir::cast(m.g, all, n->dtype);
}

}  // namespace modeld::schedule
