#include "selftest/fuzz/kernel_damage.h"

#include <bit>

#include "runtime/codegen/graph_util.h"

namespace modeld::fuzz {

namespace {

using ir::AxisType;
using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using ir::OptOp;

template <class F>
const Node* map(Graph& g, const Node* root, F f) {
  return codegen::map_graph(g, root, [&](const Node* n, NodeVec& src) -> const Node* {
    const Node* same = codegen::rebuilt(g, n, src);
    return f(same);
  });
}

bool has_applied(const Node* sink, OptOp op) {
  if (!sink->has<ir::KernelInfo>()) return false;
  for (const ir::Opt& o : sink->as<ir::KernelInfo>().applied_opts)
    if (o.op == op) return true;
  return false;
}

bool is_range(const Node* n, AxisType t) {
  return n->op == Op::kRange && n->as<ir::RangeArg>().type == t;
}

// ---- opts ----

const Node* widen_pad_mask(Graph& g, const Node* root) {
  if (!has_applied(root, OptOp::kPadTo)) return root;
  return map(g, root, [&](const Node* n) -> const Node* {
    const auto limit = n->op == Op::kCmpLt ? ir::int_value(n->src(1)) : std::nullopt;
    if (!limit || n->src(0)->op != Op::kRange) return n;
    if (*limit >= codegen::range_size(g, n->src(0))) return n;
    return ir::lt(g, n->src(0), ir::const_int(g, *limit + 1));
  });
}

const Node* forget_neutral(Graph& g, const Node* root) {
  if (!has_applied(root, OptOp::kPadTo)) return root;
  return map(g, root, [&](const Node* n) -> const Node* {
    if (n->op != Op::kReduce || n->src(0)->op != Op::kWhere) return n;
    NodeVec src(n->src().begin(), n->src().end());
    src[0] = src[0]->src(1);
    return g.with_src(n, src);
  });
}

// outer * n + inner: outer steps by n - 1.
const Node* shorten_split(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    if (n->op != Op::kAdd || n->src(0)->op != Op::kMul) return n;
    const Node* inner = n->src(1);
    if (!is_range(inner, AxisType::kUpcast) && !is_range(inner, AxisType::kUnroll)) return n;
    const Node* outer = n->src(0);
    const auto step = ir::int_value(outer->src(1));
    if (!step || outer->src(0)->op != Op::kRange || *step < 2) return n;
    return ir::add(g, ir::mul_const(g, outer->src(0), *step - 1), inner);
  });
}

const Node* lose_share(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    const bool is_core = n->op == Op::kParam && n->as<ir::ParamArg>().name == "core_id";
    return is_core ? ir::const_int(g, 0, n->dtype) : n;
  });
}

// ---- loops and accumulators ----

template <AxisType kType>
const Node* lose_last_round(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    const auto bound = is_range(n, kType) ? ir::int_value(n->src(0)) : std::nullopt;
    if (!bound || *bound < 2) return n;
    NodeVec src(n->src().begin(), n->src().end());
    src[0] = ir::const_int(g, *bound - 1, src[0]->dtype);
    return g.with_src(n, src);
  });
}

bool is_register_store(const Node* n) {
  if (n->op != Op::kStore) return false;
  const Node* root = codegen::memory_root(n->src(0));
  return root != nullptr && codegen::memory_space(root) == ir::AddrSpace::kReg;
}

const Node* start_at(Graph& g, const Node* n, double value) {
  NodeVec src(n->src().begin(), n->src().end());
  src[1] = ir::const_of(g, src[1]->dtype, value);
  return g.with_src(n, src);
}

const Node* start_sum_at_one(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    const bool starts = is_register_store(n) && ir::num_value(n->src(1)) == 0.0;
    return starts ? start_at(g, n, 1) : n;
  });
}

const Node* start_max_at_zero(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    const auto v = is_register_store(n) ? ir::num_value(n->src(1)) : std::nullopt;
    return v && *v < 0 ? start_at(g, n, 0) : n;
  });
}

// ---- vectors ----

const Node* swap_lanes(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    if (n->op != Op::kStore || n->src(0)->op != Op::kShrink || n->src(1)->op != Op::kStack)
      return n;
    NodeVec lanes(n->src(1)->src().begin(), n->src(1)->src().end());
    std::swap(lanes[0], lanes[1]);
    NodeVec src(n->src().begin(), n->src().end());
    src[1] = g.with_src(src[1], lanes);
    return g.with_src(n, src);
  });
}

const Node* repeat_lane(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    if (n->op != Op::kIndex || n->nsrc != 2 || n->src(0)->op != Op::kLoad) return n;
    const auto lane = ir::int_value(n->src(1));
    if (!lane || *lane < 1) return n;
    return g.with_src(n, {n->src(0), ir::const_int(g, *lane - 1, n->src(1)->dtype)});
  });
}

const Node* shift_vector(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    if (n->op != Op::kLoad || n->src(0)->op != Op::kShrink) return n;
    const Node* at = n->src(0);
    const codegen::GatedIndex start = codegen::split_gate(at->src(1));
    const Node* moved = codegen::join_gate(g, start.gate, ir::add_const(g, start.index, 1));
    NodeVec src(n->src().begin(), n->src().end());
    src[0] = g.with_src(at, {at->src(0), moved, at->src(2)});
    return g.with_src(n, src);
  });
}

// ---- gates ----

const Node* drop_load_gate(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    return n->op == Op::kLoad && n->nsrc == 3 ? g.with_src(n, {n->src(0)}) : n;
  });
}

const Node* drop_store_gate(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    return n->op == Op::kStore && n->nsrc == 3 ? g.with_src(n, {n->src(0), n->src(1)}) : n;
  });
}

const Node* wrong_alternative(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    if (n->op != Op::kLoad || n->nsrc != 3 || !ir::is_const(n->src(1))) return n;
    return g.with_src(n, {n->src(0), ir::const_of(g, n->dtype, 1), n->src(2)});
  });
}

// ---- arithmetic ----

const Node* floor_as_truncation(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    if (n->op != Op::kFloorDiv && n->op != Op::kFloorMod) return n;
    return g.make(n->op == Op::kFloorDiv ? Op::kCDiv : Op::kCMod, n->dtype, n->src());
  });
}

const Node* shift_without_bias(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    const auto by = n->op == Op::kCDiv ? ir::int_value(n->src(1)) : std::nullopt;
    if (!by || *by < 2 || !std::has_single_bit(static_cast<uint64_t>(*by))) return n;
    const int k = std::countr_zero(static_cast<uint64_t>(*by));
    return ir::alu(g, Op::kShr, {n->src(0), ir::const_int(g, k, n->dtype)});
  });
}

const Node* lose_rounding(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    const bool twice = n->op == Op::kCast && n->src(0)->op == Op::kCast;
    if (!twice || n->src(0)->src(0)->dtype != n->dtype) return n;
    return n->src(0)->src(0);
  });
}

const Node* confuse_sign(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    if (n->op != Op::kCast || n->src(0)->dtype != DType::kU8 || ir::item_bits(n->dtype) < 16)
      return n;
    const Node* as_signed = g.make(Op::kBitCast, DType::kI8, {n->src(0)});
    return g.make(Op::kCast, n->dtype, {as_signed});
  });
}

const Node* swap_difference(Graph& g, const Node* root) {
  return map(g, root, [&](const Node* n) -> const Node* {
    return n->op == Op::kSub ? g.with_src(n, {n->src(1), n->src(0)}) : n;
  });
}

constexpr KernelDefect kAll[] = {
    {"the mask of PADTO is one too wide", "apply_opts", widen_pad_mask},
    {"padded steps of a reduce count", "apply_opts", forget_neutral},
    {"the outer step of a split is one short", "apply_opts", shorten_split},
    {"every core does the first one's share", "add_gpudims", lose_share},
    {"a reduce loses its last step", "remove_reduces", lose_last_round<AxisType::kReduce>},
    {"an output loop loses its tail", "remove_reduces", lose_last_round<AxisType::kWeak>},
    {"a sum begins at 1", "remove_reduces", start_sum_at_one},
    {"a maximum begins at 0", "remove_reduces", start_max_at_zero},
    {"two lanes of a vector store change places", "memory_coalescing", swap_lanes},
    {"a lane is read twice", "memory_coalescing", repeat_lane},
    {"a vector load starts one element late", "memory_coalescing", shift_vector},
    {"the gate of a load is dropped", "move_gates", drop_load_gate},
    {"the gate of a store is dropped", "move_gates", drop_store_gate},
    {"a gated load gives 1 instead of 0", "move_gates", wrong_alternative},
    {"floor division truncates", "cast_float_operands", floor_as_truncation},
    {"a negative number is shifted without its bias", "dtype_decomp", shift_without_bias},
    {"a rounding to a narrow type is lost", "final_symbolic", lose_rounding},
    {"a byte is taken as signed", "final_symbolic", confuse_sign},
    {"a difference is the wrong way round", "late_decomp", swap_difference},
};

}  // namespace

std::span<const KernelDefect> kernel_damages() {
  return kAll;
}

}  // namespace modeld::fuzz
