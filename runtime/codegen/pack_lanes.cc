// pack_lanes. Needs vector loads and stores made. Gives: elementwise work whose lanes all do the
// same as vector arithmetic, and accumulators as vectors: STACK(op(a0,b0), op(a1,b1) ...) becomes
// op(STACK(a0,a1 ...), STACK(b0,b1 ...)), down to whole vector loads, constants and scalars that
// broadcast. What does not match stays a STACK of scalars. The arithmetic per lane is unchanged.
#include <algorithm>
#include <map>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

// Vectors that are read lane by lane: loads, and results of matrix units.
bool is_vector(const Node* n) {
  return (n->op == Op::kLoad && n->src(0)->op == Op::kShrink) || n->op == Op::kWmma;
}
size_t vector_width(const Node* n) {
  while (n->op == Op::kWmma) n = n->src(2);  // as wide as its accumulator
  if (n->op == Op::kStack) return n->nsrc;
  return is_vector(n) ? static_cast<size_t>(ir::int_value(n->src(0)->src(2)).value_or(1)) : 1;
}

// The element number of INDEX(REG state, const), or -1.
int64_t reg_element(const Node* address) {
  if (address->op != Op::kIndex || address->nsrc != 2) return -1;
  const Node* root = memory_root(address);
  if (root == nullptr || memory_space(root) != ir::AddrSpace::kReg) return -1;
  return ir::int_value(address->src(1)).value_or(-1);
}

class Packer {
 public:
  Packer(Graph& g, const CodegenOptions& o) : g_(g), o_(o) {}
  const Node* run(const Node* root);

 private:
  struct Plan {
    std::vector<int64_t> start;  // per element: first element of its run
    std::vector<int64_t> width;  // per element: width of its run
  };

  Graph& g_;
  const CodegenOptions& o_;
  std::map<const Node*, Plan> plans_;  // REG buffer -> runs
  std::map<NodeVec, const Node*> packed_;

  void plan_registers(const Node* root);
  const Node* load(const Node* n);
  const Node* group_stores(const NodeVec& src);
  const Node* pack(const NodeVec& lanes);
  const Node* pack_uncached(const NodeVec& lanes);
  const Node* run_address(const Node* state, int64_t start, int64_t width);
  const Node* matrix_step(const Node* n, NodeVec& src);
};

// Elements of a run must all be updated by the same operation.
void Packer::plan_registers(const Node* root) {
  std::map<const Node*, NodeVec> updates;
  for (const Node* n : ir::toposort(root)) {
    if (n->op != Op::kStore || reg_element(n->src(0)) < 0) continue;
    const Node* buffer = memory_root(n->src(0));
    NodeVec& v = updates[buffer];
    v.resize(static_cast<size_t>(ir::int_value(buffer->src(0)).value_or(1)), nullptr);
    // The update is made after the init and stands later in the order.
    v[static_cast<size_t>(reg_element(n->src(0)))] = n->src(1);
  }
  for (const auto& [buffer, v] : updates) {
    Plan plan;
    plan.start.resize(v.size());
    plan.width.resize(v.size(), 1);
    for (size_t i = 0; i < v.size();) {
      size_t width = 1;
      for (int64_t w : o_.caps.widths(buffer->dtype)) {
        const auto uw = static_cast<size_t>(w);
        if (i + uw > v.size()) continue;
        const bool same = std::all_of(v.begin() + static_cast<std::ptrdiff_t>(i),
                                      v.begin() + static_cast<std::ptrdiff_t>(i + uw),
                                      [&](const Node* u) { return u && u->op == v[i]->op; });
        if (!same) continue;
        width = uw;
        break;
      }
      for (size_t k = i; k < i + width; ++k) {
        plan.start[k] = static_cast<int64_t>(i);
        plan.width[k] = static_cast<int64_t>(width);
      }
      i += width;
    }
    plans_[buffer] = std::move(plan);
  }
}

const Node* Packer::run_address(const Node* state, int64_t start, int64_t width) {
  return g_.make(Op::kShrink, state->dtype,
                 {state, ir::const_int(g_, start), ir::const_int(g_, width)});
}

const Node* Packer::load(const Node* n) {
  const int64_t element = reg_element(n->src(0));
  const auto it = element < 0 ? plans_.end() : plans_.find(memory_root(n->src(0)));
  if (it == plans_.end() || it->second.width[static_cast<size_t>(element)] == 1) return n;
  const int64_t start = it->second.start[static_cast<size_t>(element)];
  const Node* whole = g_.make(
      Op::kLoad, n->dtype,
      {run_address(n->src(0)->src(0), start, it->second.width[static_cast<size_t>(element)])});
  return g_.make(Op::kIndex, n->dtype, {whole, ir::const_int(g_, element - start)});
}

// Stores to the elements of one register run become one store.
const Node* Packer::group_stores(const NodeVec& src) {
  std::map<std::pair<const Node*, int64_t>, NodeVec> runs;
  for (const Node* s : src) {
    const int64_t e = s->op == Op::kStore ? reg_element(s->src(0)) : -1;
    if (e < 0) continue;
    const Plan& plan = plans_.at(memory_root(s->src(0)));
    const auto at = static_cast<size_t>(e);
    NodeVec& v = runs[{s->src(0)->src(0), plan.start[at]}];
    v.resize(static_cast<size_t>(plan.width[at]), nullptr);
    v[static_cast<size_t>(e - plan.start[at])] = s->src(1);
  }
  NodeVec out;
  for (const Node* s : src) {
    const int64_t e = s->op == Op::kStore ? reg_element(s->src(0)) : -1;
    const int64_t start =
        e < 0 ? -1 : plans_.at(memory_root(s->src(0))).start[static_cast<size_t>(e)];
    if (e < 0) {
      out.push_back(s);
      continue;
    }
    const NodeVec& v = runs.at({s->src(0)->src(0), start});
    if (v.size() == 1) {
      out.push_back(s);
    } else if (e == start) {
      const Node* target = run_address(s->src(0)->src(0), start, static_cast<int64_t>(v.size()));
      out.push_back(g_.make(Op::kStore, ir::DType::kVoid, {target, pack(v)}));
    }
  }
  return group(g_, out);
}

const Node* Packer::pack(const NodeVec& lanes) {
  const auto it = packed_.find(lanes);
  if (it != packed_.end()) return it->second;
  const Node* out = pack_uncached(lanes);
  packed_[lanes] = out;
  return out;
}

bool same_operation(const Node* a, const Node* b) {
  if (a->op != b->op || a->dtype != b->dtype || a->arg != b->arg || a->nsrc != b->nsrc)
    return false;
  for (size_t i = 0; i < a->nsrc; ++i) {
    if (a->src(i)->dtype != b->src(i)->dtype) return false;
  }
  return true;
}

// Lanes 0 .. n-1 of one vector value, in order: that value.
const Node* whole_vector(const NodeVec& lanes) {
  for (size_t i = 0; i < lanes.size(); ++i) {
    const Node* n = lanes[i];
    const bool element = n->op == Op::kIndex && n->nsrc == 2 && is_vector(n->src(0));
    if (!element || n->src(0) != lanes[0]->src(0)) return nullptr;
    if (!ir::is_int_const(n->src(1), static_cast<int64_t>(i))) return nullptr;
  }
  return vector_width(lanes[0]->src(0)) == lanes.size() ? lanes[0]->src(0) : nullptr;
}

const Node* Packer::pack_uncached(const NodeVec& lanes) {
  const Node* first = lanes[0];
  const auto all = [&](auto test) { return std::all_of(lanes.begin(), lanes.end(), test); };
  if (all([&](const Node* n) { return n == first; })) return first;
  if (const Node* whole = whole_vector(lanes)) return whole;
  // A vector division may trap in a lane that a scalar one guards.
  static constexpr ir::OpSet kDivisions = {Op::kCDiv, Op::kCMod, Op::kFloorDiv, Op::kFloorMod};
  const bool safe =
      all([&](const Node* n) { return !kDivisions.has(n->op) || ir::vmin(g_, n->src(1)) > 0; });
  const bool elementwise = safe && ir::kElementwiseOps.has(first->op) &&
                           first->op != Op::kBitCast &&
                           all([&](const Node* n) { return same_operation(n, first); });
  if (!elementwise) return g_.make(Op::kStack, first->dtype, lanes);
  NodeVec src;
  NodeVec column(lanes.size());
  for (size_t i = 0; i < first->nsrc; ++i) {
    for (size_t k = 0; k < lanes.size(); ++k) column[k] = lanes[k]->src(i);
    src.push_back(pack(column));
  }
  return g_.with_src(first, src);
}

// Factors and accumulator as the vectors they are read from; what is gathered stays a STACK.
const Node* Packer::matrix_step(const Node* n, NodeVec& src) {
  for (const Node*& s : src) {
    if (s->op != Op::kStack) continue;
    const Node* whole = whole_vector({s->src().begin(), s->src().end()});
    if (whole != nullptr) s = whole;
  }
  return rebuilt(g_, n, src);
}

const Node* Packer::run(const Node* root) {
  plan_registers(root);
  return map_graph(g_, root, [&](const Node* n, NodeVec& src) -> const Node* {
    if (n->op == Op::kLoad) return load(rebuilt(g_, n, src));
    if (n->op == Op::kGroup) return group_stores(src);
    if (n->op == Op::kWmma) return matrix_step(n, src);
    if (n->op == Op::kStore && n->src(0)->op == Op::kShrink && src[1]->op == Op::kStack) {
      src[1] = pack({src[1]->src().begin(), src[1]->src().end()});
    }
    return rebuilt(g_, n, src);
  });
}

}  // namespace

const Node* pack_lanes(Graph& g, const Node* root, const CodegenOptions& o) {
  return o.caps.pack_lanes ? Packer(g, o).run(root) : root;
}

}  // namespace modeld::codegen
