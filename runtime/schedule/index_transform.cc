#include "runtime/schedule/index_transform.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/ir/symbolic.h"

namespace modeld::schedule {

using ir::AxisType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

const Node* and_valid(Graph& g, const Node* a, const Node* b) {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  return ir::land(g, a, b);
}

const Node* or_valid(Graph& g, const Node* a, const Node* b) {
  if (a == nullptr || b == nullptr) return nullptr;
  return a == b ? a : ir::alu(g, Op::kOr, {a, b});
}

const Node* gate(Graph& g, const Node* idx, const Node* valid) {
  if (valid == nullptr || ir::is_invalid(idx)) return idx;
  if (ir::is_int_const(valid, 1)) return idx;
  const Node* none = ir::const_invalid(g, idx->dtype);
  return ir::is_int_const(valid, 0) ? none : ir::where(g, valid, idx, none);
}

std::pair<const Node*, const Node*> split_gate(Graph& g, const Node* idx) {
  const Node* valid = nullptr;
  while (idx->op == Op::kWhere) {
    if (ir::is_invalid(idx->src(2))) {
      valid = and_valid(g, valid, idx->src(0));
      idx = idx->src(1);
    } else if (ir::is_invalid(idx->src(1))) {
      valid = and_valid(g, valid, ir::logical_not(g, idx->src(0)));
      idx = idx->src(2);
    } else {
      break;
    }
  }
  return {idx, valid};
}

namespace {

const Node* zero(Graph& g) {
  return ir::const_int(g, 0);
}

// Indices of equal value on axes of size 1 are all 0, whatever expression asks.
NodeVec drop_ones(std::span<const int64_t> shape, const NodeVec& idx, std::vector<int64_t>* dims) {
  NodeVec kept;
  for (size_t i = 0; i < shape.size(); i++) {
    if (shape[i] == 1) continue;
    kept.push_back(idx[i]);
    dims->push_back(shape[i]);
  }
  return kept;
}

// `off <= i < off + n`, without the halves that always hold; nullptr = always.
const Node* inside(Graph& g, const Node* i, const Node* off, int64_t n) {
  const ir::Bounds b = ir::bounds(g, i);
  const ir::Bounds o = ir::bounds(g, off);
  const Node* valid = nullptr;
  if (b.vmin < o.vmax) valid = ir::logical_not(g, ir::lt(g, i, ir::cast(g, off, i->dtype)));
  if (b.vmax >= o.vmin + n) {
    const Node* end = ir::add(g, ir::cast(g, off, i->dtype), ir::const_int(g, n, i->dtype));
    valid = and_valid(g, valid, ir::lt(g, i, ir::simplify(g, end)));
  }
  return valid;
}

}  // namespace

const Node* IndexTransform::flatten(std::span<const int64_t> shape, const NodeVec& idx) {
  const Node* flat = nullptr;
  int64_t stride = 1;
  NodeVec terms;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1) terms.push_back(ir::mul_const(g_, idx[i], stride));
    stride *= shape[i];
  }
  for (size_t i = terms.size(); i-- > 0;) {
    flat = flat == nullptr ? terms[i] : ir::add(g_, flat, terms[i]);
  }
  return flat == nullptr ? zero(g_) : flat;
}

// One block of axes whose products agree: linearise, split, let the simplifier remove div and mod.
NodeVec IndexTransform::reshape_group(std::span<const int64_t> in,
                                      std::span<const int64_t> out,
                                      const NodeVec& idx) {
  if (in.size() == 1 && out.size() == 1) return idx;
  // Ranges are renumbered so that equal reshapes under different loops share one result.
  Key key{{in.begin(), in.end()}, {out.begin(), out.end()}, {}};
  ir::NodeMap to_place, from_place;
  for (const Node* i : idx) {
    for (const Node* r : ir::ranges(g_, i)) {
      if (to_place.contains(r)) continue;
      const auto number = static_cast<int64_t>(to_place.size());
      const Node* place =
          g_.make(Op::kRange, r->dtype, r->src(), ir::RangeArg{number, AxisType::kPlaceholder});
      to_place[r] = place;
      from_place[place] = r;
    }
  }
  for (const Node* i : idx) key.idx.push_back(ir::substitute(g_, i, to_place));
  auto it = cache_.find(key);
  if (it == cache_.end()) {
    misses_++;
    const Node* flat = flatten(out, key.idx);
    NodeVec split(in.size());
    for (size_t i = in.size(); i-- > 0;) {
      const Node* size = ir::const_int(g_, in[i]);
      split[i] = i == 0 ? flat : ir::alu(g_, Op::kFloorMod, {flat, size});
      flat = ir::alu(g_, Op::kFloorDiv, {flat, size});
    }
    // TUPLE keeps every element: a SINK would drop repeated ones.
    const Node* all = ir::simplify(g_, g_.make(Op::kTuple, ir::DType::kVoid, split));
    it = cache_.emplace(std::move(key), NodeVec(all->src().begin(), all->src().end())).first;
  } else {
    hits_++;
  }
  NodeVec result;
  for (const Node* n : it->second) result.push_back(ir::substitute(g_, n, from_place));
  return result;
}

NodeVec IndexTransform::reshape(std::span<const int64_t> in_shape,
                                std::span<const int64_t> out_shape,
                                const NodeVec& out) {
  std::vector<int64_t> in_dims, out_dims;
  const NodeVec idx = drop_ones(out_shape, out, &out_dims);
  NodeVec dummy(in_shape.size(), zero(g_));
  drop_ones(in_shape, dummy, &in_dims);
  NodeVec dense;  // indices of in_dims
  size_t i = 0, o = 0;
  while (i < in_dims.size() && o < out_dims.size()) {
    size_t i_end = i + 1, o_end = o + 1;
    int64_t p_in = in_dims[i], p_out = out_dims[o];
    while (p_in != p_out && i_end <= in_dims.size() && o_end <= out_dims.size()) {
      if (p_in < p_out) {
        if (i_end == in_dims.size()) break;
        p_in *= in_dims[i_end++];
      } else {
        if (o_end == out_dims.size()) break;
        p_out *= out_dims[o_end++];
      }
    }
    const NodeVec part = reshape_group(std::span(in_dims).subspan(i, i_end - i),
                                       std::span(out_dims).subspan(o, o_end - o),
                                       NodeVec(idx.begin() + static_cast<std::ptrdiff_t>(o),
                                               idx.begin() + static_cast<std::ptrdiff_t>(o_end)));
    dense.insert(dense.end(), part.begin(), part.end());
    i = i_end;
    o = o_end;
  }
  NodeVec result;
  size_t next = 0;
  for (int64_t d : in_shape) {
    result.push_back(d == 1 || next >= dense.size() ? zero(g_) : dense[next++]);
  }
  return result;
}

Access IndexTransform::apply(const Node* m, const Access& out) {
  Access in;
  in.valid = out.valid;
  const Node* x = m->src(0);
  switch (m->op) {
    case Op::kReshape:
      in.idx = reshape(ir::max_shape(g_, x), ir::max_shape(g_, m), out.idx);
      return in;
    case Op::kPermute: {
      const ir::Ints& perm = m->as<ir::Ints>();
      in.idx.resize(perm.size());
      for (size_t i = 0; i < perm.size(); i++) in.idx[static_cast<size_t>(perm[i])] = out.idx[i];
      return in;
    }
    case Op::kFlip: {
      const ir::Ints& flips = m->as<ir::Ints>();
      const std::vector<int64_t> size = ir::max_shape(g_, x);
      in.idx = out.idx;
      for (size_t i = 0; i < flips.size(); i++) {
        if (flips[i] == 0 || size[i] == 1) continue;
        in.idx[i] = ir::add(g_, ir::mul_const(g_, out.idx[i], -1), ir::const_int(g_, size[i] - 1));
      }
      return in;
    }
    case Op::kExpand: {
      const size_t added = out.idx.size() - ir::shape(g_, x).size();
      in.idx.assign(out.idx.begin() + static_cast<std::ptrdiff_t>(added), out.idx.end());
      return in;
    }
    case Op::kPad: {
      const std::vector<int64_t> size = ir::max_shape(g_, x);
      for (size_t i = 0; i < size.size(); i++) {
        const Node* offset = m->src(1)->op == Op::kStack ? m->src(1)->src(i) : m->src(1);
        in.valid = and_valid(g_, in.valid, inside(g_, out.idx[i], offset, size[i]));
        const Node* back = ir::int_value(offset)
                               ? ir::add_const(g_, out.idx[i], -*ir::int_value(offset))
                               : ir::add(g_, out.idx[i], ir::mul_const(g_, offset, -1));
        in.idx.push_back(size[i] == 1 ? zero(g_) : back);
      }
      return in;
    }
    default: {  // kShrink; starts may be symbolic
      const Node* starts = m->src(1);
      for (size_t i = 0; i < out.idx.size(); i++) {
        const Node* s = starts->op == Op::kStack ? starts->src(i) : starts;
        in.idx.push_back(ir::is_int_const(s, 0)            ? out.idx[i]
                         : ir::is_int_const(out.idx[i], 0) ? s
                                                           : ir::add(g_, out.idx[i], s));
      }
      return in;
    }
  }
}

}  // namespace modeld::schedule
