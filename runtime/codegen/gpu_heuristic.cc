// The steps of the reference heuristic that only a GPU has (pipeline hand-book 6.4: 2 image,
// 3 matvec, 4 grouping, 9 locals), one rule per function.
#include <algorithm>
#include <optional>
#include <tuple>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/heuristics.h"
#include "runtime/codegen/image_shape.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {

using ir::AxisType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using ir::OptOp;

namespace {

constexpr int64_t kMatvecThreadsPerRow = 8;
constexpr int64_t kMatvecBlock = 4;
constexpr int64_t kMatvecRowsPerThread = 4;

constexpr int64_t kMaxGroupedOutputs = 2048;
constexpr int64_t kMaxGroupedOutputsNoLocals = 240;

constexpr int64_t kMaxLocalItems = 128;
constexpr size_t kMaxLocalAxes = 3;

int64_t as_i64(size_t v) {
  return static_cast<int64_t>(v);
}

NodeVec terms(const Node* index) {
  if (index->op != Op::kAdd) return {index};
  NodeVec out = terms(index->src(0));
  const NodeVec right = terms(index->src(1));
  out.insert(out.end(), right.begin(), right.end());
  return out;
}

bool has_term(const Node* index, const Node* r) {
  const NodeVec all = terms(index);
  return std::find(all.begin(), all.end(), r) != all.end();
}

// The axis of a buffer's index that is contiguous and a multiple of four, outside of its mask.
std::optional<size_t> pixel_axis(const Scheduler& s, const Node* address) {
  const GatedIndex at = split_gate(address->src(1));
  for (const Node* t : terms(at.index)) {
    if (t->op != Op::kRange || range_size(s.graph(), t) % 4 != 0) continue;
    if (at.gate != nullptr && ir::depends_on(s.graph(), at.gate, t)) continue;
    const auto it = std::find(s.axes().begin(), s.axes().end(), t);
    if (it != s.axes().end()) return static_cast<size_t>(it - s.axes().begin());
  }
  return std::nullopt;
}

// The operands of a sum of products of two reads; null if it is something else.
const Node* product_of_reads(const Scheduler& s) {
  const NodeVec reduces = s.reduces();
  if (reduces.empty() || reduces.back()->as<ir::ReduceArg>().op != Op::kAdd) return nullptr;
  const Node* product = reduces.back()->src(0);
  const bool reads = product->op == Op::kMul && product->src(0)->op == Op::kIndex &&
                     product->src(1)->op == Op::kIndex;
  return reads ? product : nullptr;
}

bool is_matvec(const Scheduler& s, const Node* product, const Node* first_reduce) {
  Graph& g = s.graph();
  const Node* vector = split_gate(product->src(0)->src(1)).index;
  const Node* matrix = split_gate(product->src(1)->src(1)).index;
  const NodeVec& all = ir::ranges(g, matrix);
  return has_term(vector, first_reduce) &&
         std::all_of(
             ir::ranges(g, vector).begin(), ir::ranges(g, vector).end(),
             [&](const Node* r) { return std::find(all.begin(), all.end(), r) != all.end(); });
}

}  // namespace

void upcast_images(Scheduler& s) {
  if (!s.options().caps.image) return;
  for (size_t b = 0; b < s.buffers().size(); ++b) {
    const Node* address = s.buffers()[b];
    const Node* memory = memory_root(address);
    if (memory->op != Op::kParam || address->nsrc != 2) continue;
    if (!image_shape(ir::element_count(s.graph(), memory), memory->dtype)) continue;
    const std::optional<size_t> axis = pixel_axis(s, address);
    if (!axis) continue;
    const std::vector<size_t> output = s.upcastable();
    const std::vector<size_t> reduced = s.unrollable();
    const auto it = std::find(reduced.begin(), reduced.end(), *axis);
    if (std::find(output.begin(), output.end(), *axis) != output.end()) {
      (void)s.apply_opt({OptOp::kUpcast, as_i64(*axis), 4}).ok();
    } else if (it != reduced.end()) {
      (void)s.apply_opt({OptOp::kUnroll, it - reduced.begin(), 4}).ok();
    }
  }
}

bool apply_matvec(Scheduler& s) {
  const RendererCaps& caps = s.options().caps;
  if (!caps.has_locals || s.options().nolocals || caps.shared_max <= 0) return false;
  const Node* product = product_of_reads(s);
  const std::vector<size_t> reduced = s.axes_of({AxisType::kReduce});
  if (product == nullptr || s.axes().size() < 2 || reduced.empty()) return false;
  if (!is_matvec(s, product, s.axes()[reduced[0]])) return false;
  if (s.size(reduced[0]) % kMatvecThreadsPerRow != 0) return false;
  for (size_t a : s.axes_of({AxisType::kGlobal})) {
    if (s.size(a) % (kMatvecBlock * kMatvecRowsPerThread) != 0) continue;
    Scheduler trial = s;
    const bool ok = trial.apply_opt({OptOp::kGroup, 0, kMatvecThreadsPerRow}).ok() &&
                    trial.apply_opt({OptOp::kLocal, as_i64(a), kMatvecBlock}).ok() &&
                    trial.apply_opt({OptOp::kUpcast, as_i64(a), kMatvecRowsPerThread}).ok();
    if (!ok) continue;
    s = trial;
    return true;
  }
  return false;
}

bool apply_grouping(Scheduler& s) {
  int64_t outputs = 1;
  for (size_t a : s.upcastable()) outputs *= s.size(a);
  const int64_t most = s.options().nolocals ? kMaxGroupedOutputsNoLocals : kMaxGroupedOutputs;
  if (outputs > most) return false;
  for (int64_t axis : {0, 1, 2}) {
    if (s.apply_opt({OptOp::kGroupTop, axis, 16}).ok()) return true;
  }
  return false;
}

namespace {

struct LocalAxis {
  size_t axis;
  int64_t amount;
};

// Axes along which some buffer repeats come first, then inner ones.
std::vector<LocalAxis> choose_locals(const Scheduler& s) {
  std::vector<std::pair<bool, size_t>> ranked;  // (no buffer repeats, axis)
  const NodeVec buffers = s.buffers();
  for (size_t a : s.axes_of({AxisType::kGlobal, AxisType::kWeak, AxisType::kLoop})) {
    if (!ir::is_const(s.axes()[a]->src(0))) continue;
    const bool repeats = std::any_of(buffers.begin(), buffers.end(), [&](const Node* b) {
      return !ir::depends_on(s.graph(), split_gate(b->src(1)).index, s.axes()[a]);
    });
    ranked.emplace_back(!repeats, a);
  }
  std::sort(ranked.begin(), ranked.end(), [](const auto& x, const auto& y) {
    return x.first != y.first ? x.first < y.first : x.second > y.second;
  });
  std::vector<LocalAxis> out;
  int64_t items = 1;
  for (const auto& [unused, axis] : ranked) {
    for (int64_t amount : {32, 16, 8, 4, 3, 2}) {
      if (amount == 32 && axis != 0) continue;
      if (s.size(axis) % amount != 0 || items * amount > kMaxLocalItems) continue;
      out.push_back({axis, amount});
      items *= amount;
      break;
    }
  }
  if (out.size() > kMaxLocalAxes) out.resize(kMaxLocalAxes);
  std::sort(out.begin(), out.end(),
            [](const LocalAxis& x, const LocalAxis& y) { return x.axis < y.axis; });
  return out;
}

}  // namespace

void apply_locals(Scheduler& s) {
  if (!s.options().caps.has_locals) return;
  if (s.options().nolocals) {
    (void)s.apply_opt({OptOp::kNoLocals, 0, 0}).ok();
    return;
  }
  size_t gone = 0;  // axes that became local as a whole
  for (const LocalAxis& l : choose_locals(s)) {
    const size_t axis = l.axis - gone;
    const bool whole = s.size(axis) == l.amount;
    if (s.apply_opt({OptOp::kLocal, as_i64(axis), l.amount}).ok() && whole) ++gone;
  }
}

}  // namespace modeld::codegen
