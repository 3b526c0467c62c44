// Register tiles for a CPU with wide vectors ([D] of the hand-book's section 6.4, whose 4x4 tiles
// suit a GPU): the axis along which the result is contiguous becomes the vector axis, one more
// output axis that some operand does not use shares its loads, short reduces are unrolled.
#include <algorithm>
#include <optional>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/heuristics.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using ir::OptOp;

namespace {

// Generated statements grow with lanes x unrolled steps; so do lowering and compile time.
constexpr int64_t kMaxWork = 640;

int64_t as_i64(size_t v) {
  return static_cast<int64_t>(v);
}

// Vector pieces that n consecutive elements take with widths 16, 8, 4, 2, 1.
int64_t pieces(int64_t n) {
  int64_t count = 0;
  for (int64_t w : {16, 8, 4, 2, 1}) {
    count += n / w;
    n %= w;
  }
  return count;
}

// The divisor of `size` up to 16 that fills vectors best; 1 if none helps.
int64_t best_width(int64_t size) {
  int64_t best = 1;
  for (int64_t n = 2; n <= 16; ++n) {
    if (size % n == 0 && n * pieces(best) > best * pieces(n)) best = n;
  }
  return best;
}

const Node* index_of(const Node* address) {
  return split_gate(address->src(1)).index;
}

// The output axis along which the first store is contiguous.
std::optional<size_t> contiguous_axis(const Scheduler& s) {
  for (const Node* n : ir::toposort(s.ast())) {
    if (n->op != Op::kStore) continue;
    for (size_t a : s.upcastable()) {
      if (stride_of(s.graph(), index_of(n->src(0)), s.axes()[a]) == 1) return a;
    }
    return std::nullopt;
  }
  return std::nullopt;
}

NodeVec inputs(const Scheduler& s) {
  NodeVec out = s.buffers();
  for (const Node* n : ir::toposort(s.ast())) {
    if (n->op == Op::kStore) std::erase(out, n->src(0));
  }
  return out;
}

// Whether the reads that vary along the axis come from few vectors: contiguous, or every second
// element (strided convolutions), which two loads and a shuffle serve.
bool reads_contiguous(const Scheduler& s, size_t axis) {
  for (const Node* b : inputs(s)) {
    if (!ir::depends_on(s.graph(), b->src(1), s.axes()[axis])) continue;
    const auto stride = stride_of(s.graph(), index_of(b), s.axes()[axis]);
    if (!stride || *stride < 1 || *stride > 2) return false;
  }
  return true;
}

// Loads an upcast of the axis saves: operands that do not vary along it.
int64_t reuse(const Scheduler& s, size_t axis) {
  int64_t n = 0;
  for (const Node* b : inputs(s)) {
    n += ir::depends_on(s.graph(), b->src(1), s.axes()[axis]) ? 0 : 1;
  }
  return n;
}

void upcast(Scheduler& s, size_t axis, int64_t amount) {
  if (amount > 1) (void)s.apply_opt({OptOp::kUpcast, as_i64(axis), amount}).ok();
}

int64_t largest_divisor(int64_t size, std::initializer_list<int64_t> choices) {
  for (int64_t c : choices) {
    if (size % c == 0) return c;
  }
  return 1;
}

// A second output axis whose lanes share loads with the vector axis.
void upcast_reuse_axis(Scheduler& s, const Node* vector_range) {
  std::optional<size_t> best;
  for (size_t a : s.upcastable()) {
    if (s.axes()[a] == vector_range || reuse(s, a) == 0) continue;
    if (largest_divisor(s.size(a), {4, 3, 2}) == 1) continue;
    if (!best || reuse(s, a) > reuse(s, *best)) best = a;
  }
  if (best) {
    upcast(s, *best, largest_divisor(s.size(*best), {4, 3, 2}));
    return;
  }
  // A single row: more vectors of it keep the adders busy.
  for (size_t a : s.upcastable()) {
    if (s.axes()[a]->as<ir::RangeArg>().id == vector_range->as<ir::RangeArg>().id) {
      upcast(s, a, largest_divisor(s.size(a), {4, 3, 2}));
      return;
    }
  }
}

// Unrolls whole short reduce axes from the last, then a part of a long one.
void unroll_reduce(Scheduler& s) {
  int64_t work = s.upcast_size();
  while (true) {
    const std::vector<size_t> axes = s.unrollable();
    if (axes.empty()) return;
    const int64_t size = s.size(axes.back());
    const int64_t last = as_i64(axes.size()) - 1;
    if (size <= 9 && work * size <= kMaxWork) {
      if (!s.apply_opt({OptOp::kUnroll, last, 0}).ok()) return;
      work *= size;
      continue;
    }
    // With many accumulators a few steps are enough to share address math.
    const int64_t part = s.output_upcast() >= 16 ? largest_divisor(size, {4, 2}) : best_width(size);
    if (work * part <= kMaxWork && part > 1) (void)s.apply_opt({OptOp::kUnroll, last, part}).ok();
    return;
  }
}

}  // namespace

Scheduler cpu_heuristic(const Scheduler& start) {
  Scheduler s = start;
  const bool reducing = !s.reduces().empty();
  const std::optional<size_t> vector_axis = contiguous_axis(s);
  if (vector_axis && reducing && cpu_tensor_core_step(s, s.axes()[*vector_axis])) {
    apply_threads(s);
    return s;
  }
  if (vector_axis && (!reducing || reads_contiguous(s, *vector_axis))) {
    const Node* range = s.axes()[*vector_axis];
    upcast(s, *vector_axis, best_width(s.size(*vector_axis)));
    if (reducing && s.output_upcast() > 1) upcast_reuse_axis(s, range);
  } else if (vector_axis && reducing) {
    // Reads run along the reduce axis (rows times vectors): a few rows share what they can.
    upcast(s, *vector_axis, largest_divisor(s.size(*vector_axis), {4, 2}));
  } else if (!reducing && !s.upcastable().empty()) {
    upcast(s, s.upcastable().back(), best_width(s.size(s.upcastable().back())));
  }
  if (reducing) unroll_reduce(s);
  apply_threads(s);
  return s;
}

}  // namespace modeld::codegen
