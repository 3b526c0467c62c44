#include "runtime/schedule/split_reduceop.h"

#include <algorithm>

#include "runtime/ir/derived.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

constexpr int64_t kMostParts = 256;
constexpr int64_t kFewestParts = 8;

int64_t product(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// Axes that only repeat data: followed through EXPAND, PERMUTE and elementwise work.
std::vector<bool> broadcast_axes(Graph& g, const Node* n) {
  const size_t rank = ir::shape(g, n).size();
  if (n->op == Op::kExpand) {
    const std::vector<bool> inner = broadcast_axes(g, n->src(0));
    std::vector<bool> out(rank - inner.size(), true);
    out.insert(out.end(), inner.begin(), inner.end());
    return out;
  }
  if (n->op == Op::kPermute) {
    const std::vector<bool> inner = broadcast_axes(g, n->src(0));
    std::vector<bool> out;
    for (int64_t p : n->as<ir::Ints>()) out.push_back(inner[static_cast<size_t>(p)]);
    return out;
  }
  if (n->op == Op::kConst) return std::vector<bool>(rank, true);
  return std::vector<bool>(rank, false);
}

// The second half of a split: it reduces what the first half left, however much that is.
bool is_second_half(const Node* reduce) {
  const Node* x = reduce->src(0);
  if (x->op == Op::kPermute) x = x->src(0);
  return x->op == Op::kContiguous && x->src(0)->op == Op::kReduce &&
         x->src(0)->as<ir::ReduceArg>().op == reduce->as<ir::ReduceArg>().op;
}

const Node* reshape(Graph& g, const Node* x, std::span<const int64_t> dims) {
  return g.make(Op::kReshape, x->dtype, {x, ir::shape_node(g, dims)});
}

const Node* permute(Graph& g, const Node* x, ir::Ints order) {
  return g.make(Op::kPermute, x->dtype, {x}, std::move(order));
}

}  // namespace

std::optional<ReduceSplit> choose_split(std::span<const int64_t> in,
                                        int64_t k,
                                        const std::vector<bool>& is_broadcast,
                                        const ScheduleOptions& options) {
  if (!options.split_reduceop) return std::nullopt;
  const auto reduced = static_cast<size_t>(k);
  const int64_t outputs = product(in.subspan(reduced));
  if (outputs == 0) return std::nullopt;
  const int64_t per_output = product(in) / outputs;
  if (per_output < options.split_threshold) return std::nullopt;
  // Each part must have something to add up, else the second reduce would be split like the first.
  const int64_t most =
      std::min({kMostParts, (int64_t{1} << options.split_size_log2) / outputs, per_output - 1});
  for (size_t axis = 0; axis < reduced; axis++) {
    if (is_broadcast[axis]) continue;
    for (int64_t d = most; d >= kFewestParts; d--) {
      if (in[axis] % d == 0) return ReduceSplit{axis, d};
    }
  }
  return std::nullopt;
}

const Node* split_reduceop(Graph& g, const Node* reduce, const ScheduleOptions& options) {
  if (is_second_half(reduce)) return nullptr;
  const Node* x = reduce->src(0);
  const ir::Shape shape = ir::shape(g, x);
  if (!std::all_of(shape.begin(), shape.end(), [](const Node* d) { return ir::is_const(d); })) {
    return nullptr;
  }
  const std::vector<int64_t> dims = ir::dims(g, x);
  const auto& arg = reduce->as<ir::ReduceArg>();
  const auto split = choose_split(dims, arg.axes, broadcast_axes(g, x), options);
  if (!split) return nullptr;
  // (.., d, dim/d, ..) with d moved last; reduce the old axes; reduce what is left of d.
  std::vector<int64_t> cut(dims.begin(), dims.end());
  cut[split->axis] /= split->divisor;
  cut.insert(cut.begin() + static_cast<std::ptrdiff_t>(split->axis), split->divisor);
  ir::Ints order;
  for (size_t i = 0; i < cut.size(); i++) {
    if (i != split->axis) order.push_back(static_cast<int64_t>(i));
  }
  order.push_back(static_cast<int64_t>(split->axis));
  const Node* partial = permute(g, reshape(g, x, cut), order);
  partial = g.make(Op::kReduce, reduce->dtype, {partial}, arg);
  partial = g.make(Op::kContiguous, reduce->dtype, {partial});
  const size_t rank = ir::shape(g, partial).size();
  ir::Ints last_first{static_cast<int64_t>(rank) - 1};
  for (size_t i = 0; i + 1 < rank; i++) last_first.push_back(static_cast<int64_t>(i));
  return g.make(Op::kReduce, reduce->dtype, {permute(g, partial, last_first)},
                ir::ReduceArg{arg.op, 1});
}

}  // namespace modeld::schedule
