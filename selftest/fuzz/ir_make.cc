#include "selftest/fuzz/ir_make.h"

#include <cmath>

#include "selftest/fuzz/damage.h"

namespace modeld::fuzz {
namespace {

using namespace ir;  // NOLINT(google-build-using-namespace) the fuzzer speaks of nothing else

std::string any_name(Rng& rng) {
  switch (rng.below(5)) {
    case 0:
      return "";
    case 1:
      return "stride";
    case 2:
      return "a\"b\\c\nd\\n";
    case 3:
      return any_word(rng, 30);
    default:
      return std::string("\0\x7f\xff} {", 6);
  }
}

int64_t any_int(Rng& rng) {
  return rng.one_in(3) ? static_cast<int64_t>(nasty(rng, 16))
                       : static_cast<int64_t>(rng.below(33)) - 8;
}

Ints any_ints(Rng& rng) {
  Ints out(rng.below(5));
  for (int64_t& v : out) v = any_int(rng);
  return out;
}

Opts any_opts(Rng& rng) {
  Opts out(rng.below(4));
  for (Opt& o : out) {
    o.op = static_cast<OptOp>(rng.below(static_cast<uint64_t>(OptOp::kSwap) + 1));
    if (o.op != OptOp::kNoLocals) o.axis = any_int(rng), o.arg = any_int(rng);
  }
  return out;
}

ParamArg any_param(Rng& rng) {
  ParamArg p;
  p.slot = any_int(rng);
  p.addrspace = static_cast<AddrSpace>(rng.below(4));
  p.name = any_name(rng);
  p.device = any_name(rng);
  p.vmin = any_int(rng);
  p.vmax = any_int(rng);
  p.multiple_of = any_int(rng);
  p.is_volatile = rng.one_in(2);
  return p;
}

KernelInfo any_info(Rng& rng) {
  KernelInfo k;
  k.name = any_name(rng);
  k.applied_opts = any_opts(rng);
  if (rng.one_in(2)) k.opts_to_apply = any_opts(rng);
  k.dont_use_locals = rng.one_in(2);
  k.beam = any_int(rng);
  return k;
}

ProgramInfo any_program(Rng& rng) {
  ProgramInfo p;
  p.name = any_name(rng);
  p.globals = any_ints(rng);
  p.outs = any_ints(rng);
  p.ins = any_ints(rng);
  for (uint64_t n = rng.below(3); n > 0; --n) p.vars.push_back(any_name(rng));
  for (int64_t& v : p.global_size) v = any_int(rng);
  for (int64_t& v : p.local_size) v = any_int(rng);
  p.flops = any_int(rng);
  p.lds_bytes = any_int(rng);
  p.mem_bytes = any_int(rng);
  return p;
}

Arg any_arg(Rng& rng) {
  switch (rng.below(14)) {
    case 0:
      return any_int(rng);
    case 1:
      return any_double(rng);
    case 2:
      return rng.one_in(2);
    case 3:
      return Invalid{};
    case 4:
      return any_name(rng);
    case 5:
      return any_ints(rng);
    case 6:
      return any_param(rng);
    case 7:
      return RangeArg{any_int(rng), static_cast<AxisType>(rng.below(12))};
    case 8:
      return ReduceArg{static_cast<Op>(rng.below(kOpCount)), any_int(rng)};
    case 9:
      return StageArg{static_cast<AddrSpace>(rng.below(4)), any_name(rng), rng.one_in(2)};
    case 10:
      return any_opts(rng);
    case 11:
      return any_info(rng);
    case 12:
      return any_program(rng);
    default:
      return {};
  }
}

// An index that may be out of bounds: where(index < limit, index, Invalid).
const Node* any_index(Graph& g, const NodeVec& ranges, Rng& rng) {
  const Node* index = ranges[0];
  for (size_t i = 1; i < ranges.size(); ++i)
    index = add(g, mul_const(g, index, 1 + static_cast<int64_t>(rng.below(9))), ranges[i]);
  if (rng.one_in(2)) return index;
  return where(g, lt(g, index, const_int(g, any_int(rng))), index, const_invalid(g));
}

}  // namespace

const Node* any_graph(Graph& g, Rng& rng) {
  NodeVec made;
  NodeVec src;
  for (uint64_t n = 1 + rng.below(20); n > 0; --n) {
    const auto op = static_cast<Op>(rng.below(kOpCount));
    const int arity = op_arity(op);
    const uint64_t count = arity >= 0 ? static_cast<uint64_t>(arity) : rng.below(5);
    if (made.empty() && count > 0) continue;
    src.clear();
    // The newest node mostly, so that the last one reaches most others.
    for (uint64_t i = 0; i < count; ++i)
      src.push_back(i == 0 ? made.back() : made[rng.below(made.size())]);
    made.push_back(g.make(op, static_cast<DType>(rng.below(kDTypeCount)), src, any_arg(rng),
                          rng.one_in(4) ? static_cast<uint32_t>(rng.next()) : 0));
  }
  return made.empty() ? const_int(g, 1) : made.back();
}

const Node* any_kernel(Graph& g, Rng& rng) {
  const DType t = rng.one_in(2) ? DType::kF32 : DType::kF16;
  NodeVec ranges;
  for (uint64_t n = 1 + rng.below(3); n > 0; --n)
    ranges.push_back(range(g, 1 + static_cast<int64_t>(rng.below(64)),
                           static_cast<int64_t>(ranges.size()), AxisType::kGlobal));
  const Node* inner = range(g, 4, 9, AxisType::kReduce);
  NodeVec all = ranges;
  all.push_back(inner);
  const Node* value = g.make(Op::kIndex, t, {param(g, 1, t, 4096, "CPU"), any_index(g, all, rng)});
  value = g.make(Op::kReduce, t, {value, inner}, ReduceArg{rng.one_in(2) ? Op::kAdd : Op::kMax, 0});
  for (uint64_t n = rng.below(4); n > 0; --n)
    value = rng.one_in(2) ? mul(g, value, const_float(g, any_double(rng), t))
                          : g.make(Op::kExp2, t, {value});
  const Node* out = g.make(Op::kIndex, t, {param(g, 0, t, 4096, "CPU"), any_index(g, ranges, rng)});
  NodeVec end = {g.make(Op::kStore, DType::kVoid, {out, value})};
  end.insert(end.end(), ranges.begin(), ranges.end());
  return sink(g, NodeVec{g.make(Op::kEnd, DType::kVoid, end)}, any_info(rng));
}

const Node* long_chain(Graph& g, size_t links) {
  const Node* n = variable(g, "x", 0, 100);
  for (size_t i = 0; i < links; ++i) n = g.make(Op::kNeg, n->dtype, {n});
  return n;
}

}  // namespace modeld::fuzz
