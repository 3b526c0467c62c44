#include "runtime/codegen/decompositions.h"
#include "runtime/ir/derived.h"

namespace modeld::codegen {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::Op;

namespace {

__extension__ typedef unsigned __int128 Wide;

const Node* op2(Graph& g, Op op, const Node* a, const Node* b) {
  return ir::alu(g, op, {a, b});
}

const Node* quotient(Graph& g, const Node* x, int64_t d) {
  const ir::Bounds b = ir::bounds(g, x);
  const DType t = x->dtype;
  if (b.vmax < d) return ir::const_int(g, 0, t);
  const auto magic = magic_division(d, b.vmax);
  if (!magic) return nullptr;
  const auto make = [&](DType wide) {
    const Node* product =
        op2(g, Op::kMul, ir::cast(g, x, wide), ir::const_int(g, magic->multiplier, wide));
    return ir::cast(g, op2(g, Op::kShr, product, ir::const_int(g, magic->shift, wide)), t);
  };
  const Wide product = static_cast<Wide>(magic->multiplier) * static_cast<Wide>(b.vmax);
  if (product <= static_cast<Wide>(ir::int_max(t))) return make(t);
  // Powers of two leave the divisor first, which narrows the dividend.
  if (d % 2 == 0) {
    int64_t odd = d;
    int64_t k = 0;
    for (; odd % 2 == 0; odd /= 2) ++k;
    if (odd == 1) return nullptr;
    return quotient(g, op2(g, Op::kShr, x, ir::const_int(g, k, t)), odd);
  }
  if (ir::item_bits(t) <= 32 && product <= static_cast<Wide>(INT64_MAX)) return make(DType::kI64);
  return nullptr;
}

}  // namespace

std::optional<Magic> magic_division(int64_t d, int64_t vmax) {
  if (d <= 1 || vmax < d || vmax == INT64_MAX) return std::nullopt;
  const Wide ud = static_cast<Wide>(d);
  const Wide nc = (static_cast<Wide>(vmax) + 1) / ud * ud - 1;
  for (int64_t s = 0; s < 100; ++s) {
    const Wide power = Wide{1} << s;
    const Wide gap = ud - 1 - (power - 1) % ud;
    if (power <= nc * gap) continue;
    const Wide m = (power + gap) / ud;
    if (m > static_cast<Wide>(INT64_MAX)) return std::nullopt;
    return Magic{static_cast<int64_t>(m), s};
  }
  return std::nullopt;
}

const Node* fast_division(Graph& g, const Node* n) {
  const auto d = ir::int_value(n->src(1));
  const Node* x = n->src(0);
  if (!d || *d <= 1 || ir::bounds(g, x).vmin < 0) return nullptr;
  const Node* q = quotient(g, x, *d);
  if (q == nullptr || n->op == Op::kCDiv) return q;
  return op2(g, Op::kSub, x, op2(g, Op::kMul, q, ir::const_int(g, *d, x->dtype)));
}

}  // namespace modeld::codegen
