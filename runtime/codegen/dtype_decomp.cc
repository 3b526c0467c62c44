// dtype_decomp. Needs every op in its final form but the transcendentals. Gives: types the CPU has
// only as storage (f16, bf16, 8-bit floats) computed in f32: loads widen, stores and explicit casts
// round. With double_acc every float is computed in f64 and nothing rounds but the store. Before
// late_decomp, which makes bit-level code for the type it is given.
#include <unordered_map>

#include "runtime/codegen/decompositions.h"
#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::DType;
using ir::NodeVec;
using ir::Op;

// What a type is computed in.
DType wide_type(DType t, bool double_acc) {
  if (ir::is_narrow_float(t)) return double_acc ? DType::kF64 : DType::kF32;
  return double_acc && t == DType::kF32 ? DType::kF64 : t;
}

class Widener {
 public:
  Widener(Graph& g, const CodegenOptions& o) : g_(g), o_(o) {}
  const Node* operator()(const Node* n, NodeVec& src);

 private:
  Graph& g_;
  const CodegenOptions& o_;
  std::unordered_map<const Node*, const Node*> stored_;  // widened value -> what it was in memory

  DType wide(DType t) const { return wide_type(t, o_.double_acc); }
  bool by_bits(DType t) const {  // of a narrow float
    return t != DType::kF16 || !o_.caps.native_f16;
  }
  const Node* plain(const Node* n, DType t) {
    return n->dtype == t ? n : g_.make(Op::kCast, t, {n});
  }
  const Node* to(const Node* n, DType t);
  const Node* as_stored(const Node* n, DType t);
  const Node* widened_cast(const Node* n, const Node* value);
};

// Narrow floats convert through f32 only: no library call for half <-> double or integers.
const Node* Widener::to(const Node* n, DType t) {
  if (n->dtype == t) return n;
  if (ir::is_narrow_float(n->dtype)) {
    const Node* f32 = by_bits(n->dtype) ? widen_narrow(g_, n) : plain(n, DType::kF32);
    const Node* wide = to(f32, t);
    stored_.emplace(wide, n);
    return wide;
  }
  if (!ir::is_narrow_float(t)) return plain(n, t);
  const Node* f32 = plain(n, DType::kF32);
  return by_bits(t) ? narrowed_to(g_, f32, t) : plain(f32, t);
}

// A matrix unit takes halves as they are in memory: what was widened on the way is taken back.
const Node* Widener::as_stored(const Node* n, DType t) {
  const auto it = stored_.find(n);
  if (it != stored_.end() && it->second->dtype == t) return it->second;
  if (n->op == Op::kStack) {
    NodeVec src;
    for (const Node* s : n->src()) src.push_back(as_stored(s, t));
    return g_.make(Op::kStack, t, src);
  }
  const bool element = n->op == Op::kIndex && memory_root(n) == nullptr;
  if (element) return g_.make(Op::kIndex, t, {as_stored(n->src(0), t), n->src(1)});
  return to(n, t);
}

const Node* Widener::widened_cast(const Node* n, const Node* value) {
  const DType t = wide(n->dtype);
  if (t == n->dtype) return to(value, t);
  // An explicit cast to a storage type rounds; the double reference does not.
  const bool exact = o_.double_acc || ir::is_float(n->dtype) == false;
  return exact ? to(value, t) : to(to(value, n->dtype), t);
}

bool is_register(const Node* n) {
  const Node* root = memory_root(n);
  return root != nullptr && memory_space(root) == ir::AddrSpace::kReg;
}

const Node* Widener::operator()(const Node* n, NodeVec& src) {
  const DType t = wide(n->dtype);
  switch (n->op) {
    case Op::kConst:
      return t == n->dtype ? n : g_.make(Op::kConst, t, NodeVec{}, *n->arg);
    case Op::kLoad: {
      if (is_register(n->src(0))) return g_.make(n->op, t, src, *n->arg);
      for (size_t i = 1; i < src.size() && i < 2; ++i) src[i] = to(src[i], n->dtype);
      return to(g_.make(n->op, n->dtype, src, *n->arg), t);
    }
    case Op::kStore:
      if (!is_register(n->src(0))) src[1] = to(src[1], memory_root(n->src(0))->dtype);
      return rebuilt(g_, n, src);
    case Op::kCast:
      return widened_cast(n, src[0]);
    case Op::kBitCast: {
      // Bits are those of the storage type on both sides.
      const Node* bits = g_.make(Op::kBitCast, n->dtype, {to(src[0], n->src(0)->dtype)});
      return to(bits, t);
    }
    case Op::kParam:
      return rebuilt(g_, n, src);
    case Op::kWmma:
      for (size_t i = 0; i < 2; ++i) src[i] = as_stored(src[i], n->src(i)->dtype);
      return rebuilt(g_, n, src);
    case Op::kBuffer:
      return is_register(n) ? g_.make(n->op, t, src, *n->arg) : rebuilt(g_, n, src);
    case Op::kIndex:
    case Op::kShrink:
    case Op::kAfter: {
      // Addresses keep the type of their memory; elements of values are widened with the value.
      const DType own = memory_root(n) != nullptr ? src[0]->dtype : t;
      return g_.make(n->op, own, src, *n->arg);
    }
    default:
      return t == n->dtype ? rebuilt(g_, n, src) : g_.make(n->op, t, src, *n->arg, n->tag);
  }
}

}  // namespace

const Node* dtype_decomp(Graph& g, const Node* root, const CodegenOptions& o) {
  return map_graph(g, root, Widener(g, o));
}

}  // namespace modeld::codegen
