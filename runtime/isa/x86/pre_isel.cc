#include "runtime/isa/x86/pre_isel.h"

#include <unordered_set>

#include "runtime/codegen/graph_util.h"
#include "runtime/isa/x86/shapes.h"

namespace modeld::isa::x86 {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

const Node* literal(Graph& g, DType t, int64_t v) {
  return g.make(Op::kCast, t, {ir::const_int(g, v)});
}
const Node* float_literal(Graph& g, DType t, double v) {
  return g.make(Op::kCast, t, {ir::const_float(g, v)});
}

// ---- operations without an instruction, whatever the lanes ----

// Unsigned 64-bit values from 2^63 on: half of them, with the lost bit kept for the rounding.
const Node* u64_to_float(Graph& g, const Node* x, DType t) {
  const Node* one = literal(g, DType::kU64, 1);
  const Node* half =
      g.make(Op::kOr, DType::kU64,
             {g.make(Op::kShr, DType::kU64, {x, one}), g.make(Op::kAnd, DType::kU64, {x, one})});
  const auto as_signed = [&](const Node* n) {
    return g.make(Op::kCast, t, {g.make(Op::kBitCast, DType::kI64, {n})});
  };
  const Node* h = as_signed(half);
  const Node* top = g.make(Op::kCmpLt, DType::kBool,
                           {g.make(Op::kBitCast, DType::kI64, {x}), literal(g, DType::kI64, 0)});
  return g.make(Op::kWhere, t, {top, g.make(Op::kAdd, t, {h, h}), as_signed(x)});
}

const Node* float_to_u64(Graph& g, const Node* x) {
  const Node* limit = float_literal(g, x->dtype, 0x1p63);
  const Node* low = g.make(Op::kCast, DType::kI64, {x});
  const Node* high =
      g.make(Op::kXor, DType::kI64,
             {g.make(Op::kCast, DType::kI64, {g.make(Op::kSub, x->dtype, {x, limit})}),
              literal(g, DType::kI64, INT64_MIN)});
  const Node* small = g.make(Op::kCmpLt, DType::kBool, {x, limit});
  return g.make(Op::kBitCast, DType::kU64, {g.make(Op::kWhere, DType::kI64, {small, low, high})});
}

// Rules give null where nothing is to be done.
const Node* legal_cast(Graph& g, const Node* n) {
  const Node* x = n->src(0);
  const DType from = x->dtype;
  const DType to = n->dtype;
  if (x->op == Op::kConst) return nullptr;
  if (to == DType::kBool && from != DType::kBool && !ir::is_float(from))
    return g.make(Op::kCmpNe, DType::kBool, {x, literal(g, from, 0)});
  if (from == DType::kU64 && ir::is_float(to)) return u64_to_float(g, x, to);
  if (to == DType::kU64 && ir::is_float(from)) return float_to_u64(g, x);
  // Small integers become floats through i32, as vectors too.
  if (ir::is_int(from) && ir::item_bits(from) < 32 && ir::is_float(to))
    return g.make(Op::kCast, to, {g.make(Op::kCast, DType::kI32, {x})});
  return nullptr;
}

const Node* bool_sum(Graph& g, const Node* n) {
  if (n->dtype != DType::kBool) return nullptr;
  return g.make(n->op == Op::kMul ? Op::kAnd : Op::kOr, n->dtype, {n->src(0), n->src(1)});
}

const Node* legal_ops(Graph& g, const Node* sink) {
  ir::RuleSet rules;
  rules.on({Op::kCast}, "legal cast", legal_cast);
  rules.on({Op::kAdd, Op::kMax, Op::kMul}, "bool sum", bool_sum);
  return ir::rewrite(g, sink, rules);
}

// MAX of integers that has no instruction.
const Node* scalar_max(Graph& g, const Node* n) {
  const Node* less = g.make(Op::kCmpLt, DType::kBool, {n->src(0), n->src(1)});
  return g.make(Op::kWhere, n->dtype, {less, n->src(1), n->src(0)});
}

// ---- lanes ----

// Element k of the slice as an address of its own.
const Node* element(Graph& g, const Node* slice, int64_t k) {
  const Node* start = slice->src(1);
  const Node* at = start;
  if (start->op == Op::kConst || is_literal(start)) {
    const Node* c = start->op == Op::kConst ? start : start->src(0);
    const Node* moved = ir::const_int(g, ir::int_value(c).value_or(0) + k, c->dtype);
    at = start->op == Op::kConst ? moved : g.make(Op::kCast, start->dtype, {moved});
  } else if (k != 0) {
    at = g.make(Op::kAdd, start->dtype, {start, literal(g, start->dtype, k)});
  }
  return g.make(Op::kIndex, slice->dtype, {slice->src(0), at});
}

class Scalariser {
 public:
  explicit Scalariser(Graph& g) : g_(g) {}
  const Node* operator()(const Node* original, NodeVec& src);

 private:
  Graph& g_;
  Shapes shapes_;

  const Node* lane(const Node* v, int64_t k);
  const Node* access(const Node* n);
  const Node* by_lanes(const Node* n, int64_t lanes);
};

const Node* Scalariser::lane(const Node* v, int64_t k) {
  if (v->op == Op::kStack) return v->src(static_cast<size_t>(k));
  if (shapes_.lanes(v) == 1) return v;
  return g_.make(Op::kIndex, v->dtype, {v, ir::const_int(g_, k)});
}

// A vector access that no register holds, element by element.
const Node* Scalariser::access(const Node* n) {
  const Node* slice = n->src(0);
  const int64_t width = ir::int_value(slice->src(2)).value_or(1);
  const Node* buffer = memory_of(slice);
  const bool narrow_register = is_register_buffer(buffer) && ir::item_bits(buffer->dtype) < 32;
  if (is_vector_shape(buffer->dtype, width) && !narrow_register) return n;
  NodeVec parts;
  for (int64_t k = 0; k < width; ++k) {
    NodeVec src(n->src().begin(), n->src().end());
    src[0] = element(g_, slice, k);
    if (n->op == Op::kStore || n->nsrc == 3) src[1] = lane(src[1], k);
    parts.push_back(g_.make(n->op, n->dtype, src, *n->arg));
  }
  return n->op == Op::kStore ? g_.make(Op::kGroup, DType::kVoid, parts)
                             : g_.make(Op::kStack, n->dtype, parts);
}

const Node* scalar(Graph& g, const Node* n) {
  return n->op == Op::kMax && !ir::is_float(n->dtype) ? scalar_max(g, n) : n;
}

const Node* Scalariser::by_lanes(const Node* n, int64_t lanes) {
  NodeVec parts;
  for (int64_t k = 0; k < lanes; ++k) {
    NodeVec src;
    for (const Node* s : n->src()) src.push_back(lane(s, k));
    parts.push_back(scalar(g_, g_.make(n->op, n->dtype, src, *n->arg)));
  }
  return g_.make(Op::kStack, n->dtype, parts);
}

int64_t lane_number(const Node* index) {
  const Node* k = index->src(1);
  return ir::int_value(k->op == Op::kCast ? k->src(0) : k).value_or(0);
}

const Node* Scalariser::operator()(const Node* original, NodeVec& src) {
  const Node* n = codegen::rebuilt(g_, original, src);
  if ((n->op == Op::kLoad || n->op == Op::kStore) && n->src(0)->op == Op::kShrink) return access(n);
  if (n->op == Op::kIndex && memory_of(n) == nullptr) return lane(n->src(0), lane_number(n));
  if (!ir::kElementwiseOps.has(n->op) || is_literal(n)) return n;
  const int64_t lanes = shapes_.lanes(n);
  if (lanes == 1) return scalar(g_, n);
  return has_vector_form(shapes_, n) ? n : by_lanes(n, lanes);
}

// ---- loads of which only lanes are read ----

bool is_memory_vector(const Node* n) {
  if (n->op != Op::kLoad || n->src(0)->op != Op::kShrink) return false;
  const Node* buffer = memory_of(n->src(0));
  return !is_register_buffer(buffer) && !buffer->as<ir::ParamArg>().is_volatile;
}

// A scalar load costs what taking the lane of a vector costs, and can broadcast on the way.
const Node* split_lane_loads(Graph& g, const Node* sink) {
  std::unordered_set<const Node*> whole;
  for (const Node* n : ir::toposort(sink)) {
    const bool takes_lane = n->op == Op::kIndex && memory_of(n) == nullptr;
    for (const Node* s : n->src())
      if (is_memory_vector(s) && !takes_lane) whole.insert(s);
  }
  return codegen::map_graph(g, sink, [&](const Node* n, NodeVec& src) -> const Node* {
    const bool takes_lane = n->op == Op::kIndex && memory_of(n) == nullptr;
    if (!takes_lane || !is_memory_vector(n->src(0)) || whole.contains(n->src(0)))
      return codegen::rebuilt(g, n, src);
    NodeVec load(src[0]->src().begin(), src[0]->src().end());
    load[0] = element(g, load[0], lane_number(n));
    return g.make(Op::kLoad, n->dtype, load, *src[0]->arg);
  });
}

}  // namespace

const Node* pre_isel(Graph& g, const Node* sink) {
  sink = legal_ops(g, sink);
  sink = codegen::map_graph(g, sink, Scalariser(g));
  return split_lane_loads(g, sink);
}

}  // namespace modeld::isa::x86
