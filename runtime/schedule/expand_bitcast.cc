#include "runtime/schedule/expand_bitcast.h"

#include <algorithm>

#include "runtime/ir/derived.h"
#include "runtime/schedule/copy_rules.h"

namespace modeld::schedule {

using ir::DType;
using ir::Graph;
using ir::Ints;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

DType bits_of(int bytes) {
  switch (bytes) {
    case 1:
      return DType::kU8;
    case 2:
      return DType::kU16;
    case 4:
      return DType::kU32;
    default:
      return DType::kU64;
  }
}

const Node* reshape(Graph& g, const Node* x, const Ints& dims) {
  return g.make(Op::kReshape, x->dtype, {x, ir::shape_node(g, dims)});
}

const Node* bitcast(Graph& g, const Node* x, DType t) {
  return x->dtype == t ? x : g.make(Op::kBitCast, t, {x});
}

// (.., m * ratio) small items -> (.., m) large ones: item 0 is the lowest part.
const Node* join_items(Graph& g, const Node* bits, DType wide, Ints dims, int64_t ratio) {
  const int shift = 8 * ir::item_size(bits->dtype);
  dims.back() /= ratio;
  Ints split = dims;
  split.push_back(ratio);
  const Node* rows = reshape(g, bits, split);
  const Node* joined = nullptr;
  for (int64_t k = 0; k < ratio; k++) {
    Ints start(split.size(), 0), size = split;
    start.back() = k;
    size.back() = 1;
    const Node* part =
        g.make(Op::kShrink, rows->dtype, {rows, ir::shape_node(g, start), ir::shape_node(g, size)});
    part = ir::cast(g, reshape(g, part, dims), wide);
    if (k > 0) part = ir::alu(g, Op::kShl, {part, ir::const_int(g, k * shift, wide)});
    joined = joined == nullptr ? part : ir::alu(g, Op::kOr, {joined, part});
  }
  return joined;
}

// (.., m) large items -> (.., m * ratio) small ones.
const Node* cut_items(Graph& g, const Node* bits, DType narrow, Ints dims, int64_t ratio) {
  const int shift = 8 * ir::item_size(narrow);
  NodeVec parts;
  for (int64_t k = 0; k < ratio; k++) {
    const Node* part =
        k == 0 ? bits : ir::alu(g, Op::kShr, {bits, ir::const_int(g, k * shift, bits->dtype)});
    parts.push_back(ir::cast(g, part, narrow));
  }
  const Node* stack = g.make(Op::kStack, narrow, parts);
  Ints last;
  for (size_t i = 1; i <= dims.size(); i++) last.push_back(static_cast<int64_t>(i));
  last.push_back(0);
  dims.back() *= ratio;
  return reshape(g, g.make(Op::kPermute, narrow, {stack}, last), dims);
}

}  // namespace

bool resizes_items(const Node* n) {
  return ir::item_size(n->dtype) != ir::item_size(n->src(0)->dtype);
}

const Node* expand_bitcast(Graph& g, const Node* n) {
  if (!resizes_items(n)) return nullptr;
  const Node* x = n->src(0);
  if (is_disk(ir::device(g, x))) return nullptr;
  const ir::Shape shape = ir::shape(g, x);
  if (g.failed()) return nullptr;
  if (!std::all_of(shape.begin(), shape.end(), [](const Node* d) { return ir::is_const(d); })) {
    g.fail(Errc::kUnsupported, strf("bitcast from %s to %s: dimensions are not constant",
                                    ir::dtype_name(x->dtype), ir::dtype_name(n->dtype)));
    return nullptr;
  }
  const int from = ir::item_size(x->dtype), to = ir::item_size(n->dtype);
  const Ints dims = ir::dims(g, x);
  const Node* bits = bitcast(g, x, bits_of(from));
  const Node* moved = from < to ? join_items(g, bits, bits_of(to), dims, to / from)
                                : cut_items(g, bits, bits_of(to), dims, from / to);
  return bitcast(g, moved, n->dtype);
}

}  // namespace modeld::schedule
