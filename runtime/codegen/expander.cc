// expander. Needs UPCAST/UNROLL ranges and no constant REDUCE. Gives: a graph without them: every
// node that depended on one is written once per lane, with constants for the ranges. Lanes are
// scalar nodes; only a REDUCE takes them together, as STACK. So no vector is left to take apart
// (devectorise of the reference has no work here); memory_coalescing and pack_lanes make vectors
// again where memory allows it.
#include <algorithm>
#include <map>

#include "runtime/codegen/expand_reduce.h"
#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {
namespace {

using ir::AxisType;
using ir::NodeVec;
using ir::Op;

constexpr size_t kMaxLanes = 65536;  // a recipe that asks for more is refused

// A value per lane over a sorted list of axes, the last axis fastest.
struct Lanes {
  std::vector<size_t> axes;
  NodeVec nodes;
};

bool is_expanded(const Node* r) {
  if (r->op != Op::kRange) return false;
  const AxisType t = r->as<ir::RangeArg>().type;
  return t == AxisType::kUpcast || t == AxisType::kUnroll;
}

class Expander {
 public:
  Expander(Graph& g, const CodegenOptions& o) : g_(g), o_(o) {}

  const Node* run(const Node* root) {
    collect_axes(root);
    if (axes_.empty()) return root;
    for (const Node* n : ir::toposort(root)) {
      Lanes lanes = expand(n);
      if (g_.failed()) return root;
      table_.resize(std::max<size_t>(table_.size(), n->id + size_t{1}));
      table_[n->id] = std::move(lanes);
    }
    const Lanes& out = table_[root->id];
    if (out.nodes.size() != 1) {
      g_.fail(Errc::kInternal, "expander: an UPCAST or UNROLL axis is never closed");
      return root;
    }
    return out.nodes[0];
  }

 private:
  Graph& g_;
  const CodegenOptions& o_;
  NodeVec axes_;  // nesting order: UPCAST, then the vector axis, then UNROLL
  std::vector<Lanes> table_;

  const Lanes& at(const Node* n) const { return table_[n->id]; }
  size_t size(size_t axis) const { return static_cast<size_t>(range_size(g_, axes_[axis])); }

  void collect_axes(const Node* root);
  bool is_vector_axis(const Node* root, const Node* r);
  size_t axis_of(const Node* r) const {
    return static_cast<size_t>(std::find(axes_.begin(), axes_.end(), r) - axes_.begin());
  }
  size_t lane_count(const std::vector<size_t>& axes) const;
  // For each lane over `axes`, the lane of a value over `sub` (a subset).
  std::vector<size_t> lane_map(const std::vector<size_t>& axes,
                               const std::vector<size_t>& sub) const;
  std::vector<size_t> joined_axes(const Node* n) const;
  Lanes expand(const Node* n);
  Lanes expand_elementwise(const Node* n);
  Lanes expand_range(const Node* n);
  Lanes expand_reduction(const Node* n);
  Lanes expand_end(const Node* n);
  Lanes expand_wmma(const Node* n);
  Lanes expand_wmma_element(const Node* n);
};

// Stores are contiguous along it.
bool Expander::is_vector_axis(const Node* root, const Node* r) {
  for (const Node* n : ir::toposort(root)) {
    if (n->op != Op::kStore || n->src(0)->op != Op::kIndex) continue;
    const Node* index = split_gate(n->src(0)->src(1)).index;
    if (!ir::depends_on(g_, index, r)) continue;
    const Node* at0 = ir::substitute(g_, index, {{r, ir::const_int(g_, 0)}});
    const Node* at1 = ir::substitute(g_, index, {{r, ir::const_int(g_, 1)}});
    const Node* step =
        ir::simplify(g_, ir::add(g_, at1, ir::mul(g_, at0, ir::const_int(g_, -1, at0->dtype))));
    return ir::is_int_const(step, 1);
  }
  return false;
}

void Expander::collect_axes(const Node* root) {
  for (const Node* r : all_ranges(root)) {
    if (is_expanded(r)) axes_.push_back(r);
  }
  // A matrix unit's results keep the unit's order, its first bit fastest.
  std::map<const Node*, int> bit;
  for (const Node* n : ir::toposort(root)) {
    if (n->op != Op::kWmma) continue;
    for (size_t i = 3; i < n->nsrc; ++i) bit.emplace(n->src(i), static_cast<int>(i));
  }
  const auto rank = [&](const Node* r) {
    if (r->as<ir::RangeArg>().type == AxisType::kUnroll) return std::pair{3, 0};
    const auto it = bit.find(r);
    if (it != bit.end()) return std::pair{2, -it->second};
    return std::pair{is_vector_axis(root, r) ? 1 : 0, 0};
  };
  std::vector<std::pair<std::pair<int, int>, const Node*>> ranked;
  for (const Node* r : axes_) ranked.emplace_back(rank(r), r);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < ranked.size(); ++i) axes_[i] = ranked[i].second;
}

size_t Expander::lane_count(const std::vector<size_t>& axes) const {
  size_t n = 1;
  for (size_t a : axes) n *= size(a);
  return n;
}

std::vector<size_t> Expander::lane_map(const std::vector<size_t>& axes,
                                       const std::vector<size_t>& sub) const {
  std::vector<size_t> stride(axes.size(), 0);
  size_t run = 1;
  for (size_t i = sub.size(); i-- > 0;) {
    const auto it = std::find(axes.begin(), axes.end(), sub[i]);
    stride[static_cast<size_t>(it - axes.begin())] = run;
    run *= size(sub[i]);
  }
  std::vector<size_t> out(lane_count(axes));
  for (size_t lane = 0; lane < out.size(); ++lane) {
    size_t rest = lane;
    for (size_t i = axes.size(); i-- > 0;) {
      out[lane] += rest % size(axes[i]) * stride[i];
      rest /= size(axes[i]);
    }
  }
  return out;
}

std::vector<size_t> Expander::joined_axes(const Node* n) const {
  std::vector<size_t> axes;
  for (const Node* s : n->src()) {
    std::vector<size_t> merged;
    std::set_union(axes.begin(), axes.end(), at(s).axes.begin(), at(s).axes.end(),
                   std::back_inserter(merged));
    axes = std::move(merged);
  }
  return axes;
}

Lanes Expander::expand(const Node* n) {
  if (is_expanded(n)) return expand_range(n);
  if (n->op == Op::kReduce) return expand_reduction(n);
  if (n->op == Op::kEnd) return expand_end(n);
  if (n->op == Op::kWmma) return expand_wmma(n);
  if (n->op == Op::kIndex && n->src(0)->op == Op::kWmma) return expand_wmma_element(n);
  return expand_elementwise(n);
}

Lanes Expander::expand_range(const Node* n) {
  Lanes out;
  out.axes = {axis_of(n)};
  for (int64_t i = 0; i < range_size(g_, n); ++i) out.nodes.push_back(ir::const_int(g_, i));
  return out;
}

Lanes Expander::expand_elementwise(const Node* n) {
  Lanes out;
  out.axes = joined_axes(n);
  const size_t lanes = lane_count(out.axes);
  if (lanes > kMaxLanes) {
    g_.fail(Errc::kInvalid, strf("expander: %zu lanes, limit %zu", lanes, kMaxLanes));
    return out;
  }
  std::vector<std::vector<size_t>> maps;
  for (const Node* s : n->src()) maps.push_back(lane_map(out.axes, at(s).axes));
  NodeVec src(n->nsrc);
  for (size_t lane = 0; lane < lanes; ++lane) {
    for (size_t i = 0; i < src.size(); ++i) src[i] = at(n->src(i)).nodes[maps[i][lane]];
    out.nodes.push_back(rebuilt(g_, n, src));
  }
  return out;
}

Lanes Expander::expand_reduction(const Node* n) {
  const Lanes& value = at(n->src(0));
  std::vector<size_t> kept = value.axes;
  std::vector<size_t> folded;
  NodeVec loops;
  for (const Node* r : n->src().subspan(1)) {
    if (!is_expanded(r)) {
      loops.push_back(at(r).nodes[0]);
      continue;
    }
    folded.push_back(axis_of(r));
    std::erase(kept, axis_of(r));
  }
  std::sort(folded.begin(), folded.end());
  std::vector<size_t> layout = kept;
  layout.insert(layout.end(), folded.begin(), folded.end());
  ReduceLanes lanes;
  lanes.kept = lane_count(kept);
  lanes.unrolled = lane_count(folded);
  // An axis the value ignores repeats it, as the loop would have.
  for (size_t from : lane_map(layout, value.axes)) lanes.lanes.push_back(value.nodes[from]);
  return {kept, expand_reduce(g_, n, lanes, loops, o_)};
}

Lanes Expander::expand_end(const Node* n) {
  const Lanes& body = at(n->src(0));
  std::vector<size_t> open = body.axes;
  NodeVec src{group(g_, body.nodes)};
  for (const Node* r : n->src().subspan(1)) {
    if (is_expanded(r)) {
      std::erase(open, axis_of(r));
    } else {
      src.push_back(at(r).nodes[0]);
    }
  }
  if (!open.empty()) g_.fail(Errc::kInternal, "expander: END leaves an UPCAST axis open");
  return {{}, {src.size() == 1 ? src[0] : g_.with_src(n, src)}};
}

// The factors' own axes become their elements; every other axis repeats the step.
Lanes Expander::expand_wmma(const Node* n) {
  const auto& arg = n->as<ir::WmmaArg>();
  std::vector<size_t> closed;
  for (const Node* r : n->src().subspan(3)) closed.push_back(axis_of(r));
  const std::vector<int64_t>* ids[2] = {&arg.a_axes, &arg.b_axes};
  std::vector<size_t> elements[2];
  for (size_t i = 0; i < 2; ++i) {
    for (size_t k = ids[i]->size(); k-- > 0;) {  // the fastest last, as in Lanes
      for (const Node* r : n->src().subspan(3)) {
        if (r->as<ir::RangeArg>().id == (*ids[i])[k]) elements[i].push_back(axis_of(r));
      }
    }
  }
  Lanes out;
  out.axes = joined_axes(n);
  std::erase_if(out.axes, [&](size_t a) {
    return std::find(closed.begin(), closed.end(), a) != closed.end();
  });
  const size_t lanes = lane_count(out.axes);
  std::vector<NodeVec> factors[2];
  for (size_t i = 0; i < 2; ++i) {
    const Lanes& value = at(n->src(i));
    std::vector<size_t> layout = out.axes;
    layout.insert(layout.end(), elements[i].begin(), elements[i].end());
    for (size_t a : value.axes) {
      if (std::find(layout.begin(), layout.end(), a) == layout.end()) {
        g_.fail(Errc::kInternal,
                "expander: a factor of WMMA varies along an axis it does not hold");
        return out;
      }
    }
    const size_t width = lane_count(elements[i]);
    factors[i].resize(lanes);
    const std::vector<size_t> from = lane_map(layout, value.axes);
    for (size_t k = 0; k < from.size(); ++k) {
      factors[i][k / width].push_back(value.nodes[from[k]]);
    }
  }
  const std::vector<size_t> acc = lane_map(out.axes, at(n->src(2)).axes);
  for (size_t lane = 0; lane < lanes; ++lane) {
    const Node* a = g_.make(Op::kStack, n->src(0)->dtype, factors[0][lane]);
    const Node* b = g_.make(Op::kStack, n->src(1)->dtype, factors[1][lane]);
    out.nodes.push_back(g_.make(Op::kWmma, n->dtype, {a, b, at(n->src(2)).nodes[acc[lane]]},
                                ir::WmmaArg{arg.core, {}, {}}));
  }
  return out;
}

// The element a lane reads is a constant: later passes pair lanes with elements by it.
Lanes Expander::expand_wmma_element(const Node* n) {
  Lanes out = expand_elementwise(n);
  for (const Node*& lane : out.nodes) {
    lane = g_.make(Op::kIndex, n->dtype, {lane->src(0), ir::simplify(g_, lane->src(1))});
    if (!ir::is_const(lane->src(1))) {
      g_.fail(Errc::kInternal, "expander: an element of WMMA is not known");
    }
  }
  return out;
}

}  // namespace

const Node* expander(Graph& g, const Node* root, const CodegenOptions& o) {
  return Expander(g, o).run(root);
}

}  // namespace modeld::codegen
