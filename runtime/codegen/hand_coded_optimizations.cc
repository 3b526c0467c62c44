#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/heuristics.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {

using ir::AxisType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using ir::Opt;
using ir::OptOp;

namespace {

int64_t as_i64(size_t v) {
  return static_cast<int64_t>(v);
}

// Product of output (not reduce) sizes.
int64_t output_elements(const Scheduler& s) {
  int64_t p = 1;
  for (size_t i = 0; i < s.axes().size(); ++i) {
    const AxisType t = s.type(i);
    if (t != AxisType::kReduce && t != AxisType::kUnroll) p *= s.size(i);
  }
  return p;
}

// Images want occupancy: work items that must stay for them (OCCUPANCY_FLOOR of the reference).
constexpr int64_t kImageItems = 4096;

// Whether an image kernel keeps enough work items when `product` of them become lanes.
bool keeps_occupancy(const Scheduler& s, int64_t product) {
  if (!s.options().caps.image) return true;
  int64_t items = 1;
  for (size_t a : s.axes_of({AxisType::kGlobal})) items *= s.size(a);
  return items / product >= kImageItems;
}

// Step 5: small axes that conditions depend on become lanes, so that the masks fold away.
void upcast_masked(Scheduler& s) {
  std::vector<size_t> chosen;
  int64_t product = 1;
  for (size_t a : s.upcastable()) {
    if (s.size(a) > 7 || !keeps_occupancy(s, product * s.size(a))) continue;
    bool masked = false;
    for (const Node* n : ir::toposort(s.ast())) {
      masked = masked || (n->op == Op::kWhere && ir::depends_on(s.graph(), n->src(0), s.axes()[a]));
    }
    if (!masked || product * s.size(a) > 49) continue;
    product *= s.size(a);
    chosen.push_back(a);
  }
  for (size_t i = chosen.size(); i-- > 0;) {
    (void)s.apply_opt({OptOp::kUpcast, as_i64(chosen[i]), 0}).ok();
  }
}

struct Candidate {
  int64_t users;
  int64_t strides;
  int64_t axis;
  int64_t amount;
  auto operator<=>(const Candidate&) const = default;
};

bool uses(Graph& g, const Node* address, const Node* r) {
  return ir::depends_on(g, address->src(1), r);
}

// Some buffer does not use the axis but uses everything upcast so far: a value read once serves
// several lanes.
bool reused_along(const Scheduler& s, const NodeVec& buffers, size_t axis) {
  Graph& g = s.graph();
  for (const Node* b : buffers) {
    if (uses(g, b, s.axes()[axis])) continue;
    bool all = true;
    for (size_t up : s.axes_of({AxisType::kUpcast, AxisType::kUnroll})) {
      all = all && uses(g, b, s.axes()[up]);
    }
    if (all) return true;
  }
  return false;
}

std::optional<Candidate> best_reuse(const Scheduler& s, const std::set<int64_t>& done) {
  Graph& g = s.graph();
  const NodeVec buffers = s.buffers();
  std::optional<Candidate> best;
  for (size_t a : s.upcastable()) {
    if (done.contains(s.axes()[a]->as<ir::RangeArg>().id) || !reused_along(s, buffers, a)) continue;
    for (int64_t amount : {3, 4}) {
      if (s.size(a) % amount != 0) continue;
      Candidate c{0, 0, as_i64(a), amount};
      for (const Node* b : buffers) {
        const Node* index = split_gate(b->src(1)).index;
        if (!uses(g, b, s.axes()[a])) continue;
        c.users += 1;
        c.strides += std::abs(stride_of(g, index, s.axes()[a]).value_or(0));
      }
      if (!best || c < *best) best = c;
    }
  }
  return best;
}

// Step 6.
void upcast_reuse(Scheduler& s) {
  std::set<int64_t> done;
  while (output_elements(s) >= 1024 && s.upcast_size() < 32) {
    const auto best = best_reuse(s, done);
    if (!best) return;
    done.insert(s.axes()[static_cast<size_t>(best->axis)]->as<ir::RangeArg>().id);
    if (!s.apply_opt({OptOp::kUpcast, best->axis, best->amount}).ok()) return;
  }
}

// Step 7.
void unroll_last_reduce(Scheduler& s) {
  const std::vector<size_t> axes = s.unrollable();
  if (axes.empty() || s.upcast_size() >= 64) return;
  if (s.upcast_size() > 4 && !s.axes_of({AxisType::kUnroll}).empty()) return;
  const int64_t last = as_i64(axes.size()) - 1;
  const int64_t size = s.size(axes.back());
  if (size <= 32) {
    if (!s.apply_opt({OptOp::kUnroll, last, 0}).ok()) return;
    const std::vector<size_t> rest = s.unrollable();
    if (!rest.empty() && size <= 3 && s.size(rest.back()) <= 3) {
      (void)s.apply_opt({OptOp::kUnroll, as_i64(rest.size()) - 1, 0}).ok();
    }
  } else if (size % 4 == 0) {
    (void)s.apply_opt({OptOp::kUnroll, last, 4}).ok();
  }
}

}  // namespace

std::optional<int64_t> stride_of(Graph& g, const Node* index, const Node* r) {
  if (!ir::depends_on(g, index, r)) return 0;
  if (index == r) return 1;
  if (index->op == Op::kAdd) {
    const auto a = stride_of(g, index->src(0), r);
    const auto b = stride_of(g, index->src(1), r);
    if (a && b) return *a + *b;
    return std::nullopt;
  }
  if (index->op == Op::kMul) {
    for (size_t i = 0; i < 2; ++i) {
      const auto c = ir::int_value(index->src(i));
      if (!c) continue;
      const auto inner = stride_of(g, index->src(1 - i), r);
      if (inner) return *inner * *c;
    }
  }
  if (index->op == Op::kCast) return stride_of(g, index->src(0), r);
  return std::nullopt;
}

void apply_threads(Scheduler& s) {
  if (!s.options().caps.has_threads) return;
  int64_t work = 1;
  for (size_t i = 0; i < s.axes().size(); ++i) work *= s.size(i);
  const int64_t max = std::min<int64_t>(s.options().caps.global_max[0], s.options().target.threads);
  for (int64_t t : {32, 16, 12, 8, 6, 5, 4, 3, 2}) {
    if (t > max || work / 131072 < t) continue;
    for (size_t a : s.axes_of({AxisType::kWeak, AxisType::kLoop, AxisType::kGlobal})) {
      if (s.size(a) % t != 0) continue;
      if (s.apply_opt({OptOp::kThread, as_i64(a), t}).ok()) return;
      break;  // the first divisible axis only, as the rule says
    }
  }
}

Scheduler hand_coded_optimizations(const Scheduler& start) {
  Scheduler s = start;
  if (tensor_core_step(s)) return s;
  upcast_images(s);
  if (apply_matvec(s) || apply_grouping(s)) return s;
  upcast_masked(s);
  upcast_reuse(s);
  unroll_last_reduce(s);
  if (s.upcast_size() == 1) {  // step 8
    const std::vector<size_t> axes = s.upcastable();
    if (!axes.empty() && s.size(axes.back()) % 4 == 0) {
      (void)s.apply_opt({OptOp::kUpcast, as_i64(axes.back()), 4}).ok();
    }
  }
  apply_locals(s);
  apply_threads(s);
  return s;
}

}  // namespace modeld::codegen
