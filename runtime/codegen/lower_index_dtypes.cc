// lower_index_dtypes. Needs mathematical (weak) index math with its intervals. Gives: i32 where the
// intervals of a node and its operands prove it, i64 otherwise; weak floats as f32. It must see the
// validity gates, which is why they still stand inside the index here.
#include <algorithm>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::DType;
using ir::NodeVec;
using ir::Op;

bool fits_i32(Graph& g, const Node* n) {
  if (ir::is_invalid(n)) return true;
  const ir::Bounds b = ir::bounds(g, n);
  return b.vmin >= INT32_MIN && b.vmax <= INT32_MAX;
}

// A value of type t. Literals are spelled in the type; everything else is cast.
const Node* as_type(Graph& g, const Node* n, DType t) {
  if (n->dtype == t) return n;
  if (ir::is_invalid(n)) return ir::const_invalid(g, t);
  if (const auto v = ir::int_value(n)) return ir::const_int(g, *v, t);
  if (const auto v = ir::num_value(n); v && ir::is_float(t)) return ir::const_of(g, t, *v);
  return g.make(Op::kCast, t, {n});
}

// The common width of a node's weak operands; concrete partners decide.
DType operand_type(Graph& g, const Node* n, size_t first) {
  DType t = DType::kI32;
  for (size_t i = first; i < n->nsrc; ++i) {
    const Node* s = n->src(i);
    if (ir::is_invalid(s)) continue;
    if (!ir::is_weak(s->dtype)) return s->dtype;
    if (s->dtype == DType::kWeakFloat) {
      t = DType::kF32;
    } else if (t == DType::kI32 && !fits_i32(g, s)) {
      t = DType::kI64;
    }
  }
  return t;
}

class IndexLowering {
 public:
  explicit IndexLowering(Graph& g) : g_(g) {}
  const Node* operator()(const Node* n, NodeVec& src);

 private:
  Graph& g_;
  const Node* lower_alu(const Node* n, NodeVec& src);
  const Node* lower_cast(const Node* n, const NodeVec& src);
  const Node* retyped(const Node* n, const NodeVec& src, DType t) {
    return g_.make(n->op, t, src, *n->arg, n->tag);
  }
};

const Node* IndexLowering::lower_alu(const Node* n, NodeVec& src) {
  const size_t first = n->op == Op::kWhere ? 1 : 0;
  DType t = n->dtype;
  if (ir::kComparisonOps.has(n->op) || ir::is_weak(t)) t = operand_type(g_, n, first);
  if (n->dtype == DType::kWeakFloat) t = DType::kF32;
  if (n->dtype == DType::kWeakInt && !fits_i32(g_, n)) t = DType::kI64;
  for (size_t i = first; i < src.size(); ++i) src[i] = as_type(g_, src[i], t);
  return retyped(n, src, n->dtype == DType::kBool ? n->dtype : t);
}

const Node* IndexLowering::lower_cast(const Node* n, const NodeVec& src) {
  DType t = n->dtype;
  if (t == DType::kWeakFloat) t = DType::kF32;
  if (t == DType::kWeakInt) t = fits_i32(g_, n) ? DType::kI32 : DType::kI64;
  return as_type(g_, src[0], t);
}

const Node* IndexLowering::operator()(const Node* n, NodeVec& src) {
  if (n->op == Op::kConst) return n;  // the consumer decides
  if (n->op == Op::kCast) return lower_cast(n, src);
  if (ir::kAluOps.has(n->op)) return lower_alu(n, src);
  if (n->op == Op::kStack && n->nsrc > 0) {
    DType t = ir::is_weak(n->dtype) ? operand_type(g_, n, 0) : n->dtype;
    for (const Node*& s : src) s = as_type(g_, s, t);
    return retyped(n, src, t);
  }
  if (n->op == Op::kRange || n->op == Op::kSpecial) {
    const DType t = fits_i32(g_, n) && fits_i32(g_, n->src(0)) ? DType::kI32 : DType::kI64;
    src[0] = as_type(g_, src[0], t);
    return retyped(n, src, t);
  }
  if (n->op == Op::kParam && n->dtype == DType::kWeakInt) {
    return retyped(n, src, fits_i32(g_, n) ? DType::kI32 : DType::kI64);
  }
  if (n->op == Op::kStore) src[1] = as_type(g_, src[1], memory_root(n->src(0))->dtype);
  const bool address = n->op == Op::kIndex || n->op == Op::kShrink;
  for (size_t i = 1; address && i < src.size(); ++i) {
    // The length of a SHRINK is a size, not a value.
    if (ir::is_const(src[i]) && !(n->op == Op::kShrink && i == 2)) {
      src[i] = as_type(g_, src[i], fits_i32(g_, src[i]) ? DType::kI32 : DType::kI64);
    }
  }
  return rebuilt(g_, n, src);
}

}  // namespace

const Node* lower_index_dtypes(Graph& g, const Node* root, const CodegenOptions&) {
  IndexLowering lower(g);
  return map_graph(g, root, lower);
}

}  // namespace modeld::codegen
