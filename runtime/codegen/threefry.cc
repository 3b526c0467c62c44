#include "runtime/codegen/decompositions.h"

namespace modeld::codegen {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::Op;

namespace {

const Node* op2(Graph& g, Op op, const Node* a, const Node* b) {
  return ir::alu(g, op, {a, b});
}

const Node* u32(Graph& g, int64_t v) {
  return ir::const_int(g, v, DType::kU32);
}

const Node* rotate(Graph& g, const Node* x, int64_t bits) {
  return op2(g, Op::kOr, op2(g, Op::kShl, x, u32(g, bits)), op2(g, Op::kShr, x, u32(g, 32 - bits)));
}

}  // namespace

// Threefry-2x32 with 20 rounds on (counter, key) pairs packed in 64 bits: Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", 2011, section 4.
const Node* decompose_threefry(Graph& g, const Node* n) {
  const auto low = [&](const Node* x) { return ir::cast(g, x, DType::kU32); };
  const auto high = [&](const Node* x) {
    return ir::cast(g, op2(g, Op::kShr, x, ir::const_int(g, 32, DType::kU64)), DType::kU32);
  };
  const Node* x0 = low(n->src(0));
  const Node* x1 = high(n->src(0));
  const Node* k0 = low(n->src(1));
  const Node* k1 = high(n->src(1));
  const Node* k2 = op2(g, Op::kXor, op2(g, Op::kXor, k0, k1), u32(g, 0x1BD11BDA));
  const Node* keys[3] = {k0, k1, k2};
  constexpr int64_t kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  x0 = ir::add(g, x0, keys[0]);
  x1 = ir::add(g, x1, keys[1]);
  for (size_t group = 0; group < 5; ++group) {
    for (int64_t bits : kRotations[group % 2]) {
      x0 = ir::add(g, x0, x1);
      x1 = op2(g, Op::kXor, rotate(g, x1, bits), x0);
    }
    x0 = ir::add(g, x0, keys[(group + 1) % 3]);
    x1 = ir::add(g, x1, ir::add(g, keys[(group + 2) % 3], u32(g, static_cast<int64_t>(group) + 1)));
  }
  const Node* wide1 =
      op2(g, Op::kShl, ir::cast(g, x1, DType::kU64), ir::const_int(g, 32, DType::kU64));
  return op2(g, Op::kOr, wide1, ir::cast(g, x0, DType::kU64));
}

}  // namespace modeld::codegen
