// add_gpudims. Needs no reduce over hardware axes. Gives: the body of one work item (or of one CPU
// core): GLOBAL, WARP, LOCAL and GROUP_REDUCE ranges as expressions of hardware indices (SPECIAL
// gidxN, lidxN; idxN when the device chooses the groups), THREAD as the variable core_id. A global
// store whose address does not tell the items of a group apart is left to the item at 0 of each
// axis it lacks.
#include <algorithm>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/limit_dims.h"
#include "runtime/codegen/passes.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {
namespace {

using ir::AxisType;
using ir::NodeVec;
using ir::Op;

struct Axes {
  NodeVec global, local, thread;
};

bool by_id(const Node* a, const Node* b) {
  return a->as<ir::RangeArg>().id < b->as<ir::RangeArg>().id;
}

Axes hardware_axes(const Node* root) {
  Axes out;
  for (const Node* r : all_ranges(root)) {
    switch (r->as<ir::RangeArg>().type) {
      case AxisType::kGlobal:
        out.global.push_back(r);
        break;
      case AxisType::kWarp:
      case AxisType::kLocal:
      case AxisType::kGroupReduce:
        out.local.push_back(r);
        break;
      case AxisType::kThread:
        out.thread.push_back(r);
        break;
      default:
        break;
    }
  }
  std::sort(out.global.begin(), out.global.end(), by_id);
  std::sort(out.local.begin(), out.local.end(), by_id);
  return out;
}

class GpuDims {
 public:
  GpuDims(Graph& g, const CodegenOptions& o) : g_(g), o_(o) {}
  const Node* run(const Node* root);

 private:
  Graph& g_;
  const CodegenOptions& o_;
  Axes axes_;
  ir::NodeMap map_;  // range -> hardware expression

  void refuse(const std::string& why) { g_.fail(Errc::kInvalid, "gpudims: " + why); }
  void map_threads();
  void map_grid(bool dont_use_locals);
  void map_dims(const char* prefix, NodeVec axes, bool reversed, std::span<const int64_t> max);
  const Node* single_writer(const Node* n, const NodeVec& src);
  const Node* replaced(const Node* n, const NodeVec& src);
};

void GpuDims::map_threads() {
  if (axes_.thread.size() > 1) return refuse("more than one THREAD axis");
  if (axes_.thread.empty()) return;
  if (!axes_.global.empty() || !axes_.local.empty()) return refuse("THREAD beside a grid");
  const Node* r = axes_.thread[0];
  map_[r] = ir::variable(g_, "core_id", 0, ir::vmax(g_, r), ir::DType::kWeakInt);
}

// `reversed`: the last axis gets hardware dimension 0. Dimension 0 varies fastest.
void GpuDims::map_dims(const char* prefix,
                       NodeVec axes,
                       bool reversed,
                       std::span<const int64_t> max) {
  if (axes.empty()) return;
  if (reversed) std::reverse(axes.begin(), axes.end());
  std::vector<int64_t> sizes;
  for (const Node* r : axes) {
    if (!ir::is_const(r->src(0))) return refuse("a hardware axis of symbolic size");
    sizes.push_back(range_size(g_, r));
  }
  auto limited = limit_dims(sizes, max);
  if (!limited.ok()) return refuse(limited.error().what);
  NodeVec special;
  for (size_t i = 0; i < limited->size(); ++i) {
    const int64_t size = (*limited)[i];
    if (size > max[i]) {
      return refuse(strf("%s%zu would have %lld items, limit %lld", prefix, i,
                         static_cast<long long>(size), static_cast<long long>(max[i])));
    }
    special.push_back(g_.make(Op::kSpecial, ir::DType::kWeakInt, {ir::const_int(g_, size)},
                              strf("%s%zu", prefix, i)));
  }
  const Node* flat = special.back();
  for (size_t i = special.size() - 1; i-- > 0;) {
    flat = ir::add(g_, ir::mul_const(g_, flat, (*limited)[i]), special[i]);
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const Node* size = ir::const_int(g_, sizes[i]);
    const bool last = i + 1 == axes.size();
    map_[axes[i]] = ir::simplify(g_, last ? flat : ir::alu(g_, Op::kFloorMod, {flat, size}));
    flat = ir::alu(g_, Op::kFloorDiv, {flat, size});
  }
}

void GpuDims::map_grid(bool dont_use_locals) {
  if (axes_.global.empty() && axes_.local.empty()) return;
  const RendererCaps& caps = o_.caps;
  if (!caps.has_locals) return refuse("axis of a grid on a renderer without one");
  if (dont_use_locals) {
    if (!axes_.local.empty()) return refuse("a local axis where locals are forbidden");
    return map_dims("idx", axes_.global, true, caps.global_max);
  }
  int64_t items = 1;
  for (const Node* r : axes_.local) items *= range_size(g_, r);
  if (items > caps.group_max) {
    return refuse(strf("a group of %lld work items, limit %lld", static_cast<long long>(items),
                       static_cast<long long>(caps.group_max)));
  }
  map_dims("gidx", axes_.global, true, caps.global_max);
  map_dims("lidx", axes_.local, false, caps.local_max);
}

const Node* GpuDims::single_writer(const Node* n, const NodeVec& src) {
  const Node* memory = memory_root(n->src(0));
  if (memory == nullptr || memory_space(memory) != ir::AddrSpace::kGlobal) {
    return rebuilt(g_, n, src);
  }
  const GatedIndex at = split_gate(src[0]->src(1));
  NodeVec gates;
  if (at.gate != nullptr) gates.push_back(at.gate);
  for (const Node* r : axes_.local) {
    if (ir::depends_on(g_, n->src(0)->src(1), r)) continue;
    gates.push_back(ir::lt(g_, map_.at(r), ir::const_int(g_, 1)));
  }
  if (gates.size() == (at.gate != nullptr ? 1U : 0U)) return rebuilt(g_, n, src);
  NodeVec address(src[0]->src().begin(), src[0]->src().end());
  address[1] = join_gate(g_, ir::and_all(g_, gates), at.index);
  NodeVec gated = src;
  gated[0] = g_.with_src(src[0], address);
  return g_.with_src(n, gated);
}

const Node* GpuDims::replaced(const Node* n, const NodeVec& src) {
  const auto it = map_.find(n);
  if (it != map_.end()) return it->second;
  if (n->op == Op::kStore) return single_writer(n, src);
  if (n->op == Op::kAfter) {
    // A hardware index is there from the start: nothing waits for it.
    NodeVec deps;
    for (size_t i = 1; i < src.size(); ++i) {
      if (!map_.contains(n->src(i))) deps.push_back(src[i]);
    }
    return after(g_, src[0], deps);
  }
  if (!closes_ranges(n)) return rebuilt(g_, n, src);
  NodeVec kept{src[0]};
  const NodeVec closed = flat_ranges({src.begin() + 1, src.end()});
  kept.insert(kept.end(), closed.begin(), closed.end());
  return n->op == Op::kEnd && closed.empty() ? src[0] : rebuilt(g_, n, kept);
}

const Node* GpuDims::run(const Node* root) {
  axes_ = hardware_axes(root);
  const bool forbids = root->has<ir::KernelInfo>() && root->as<ir::KernelInfo>().dont_use_locals;
  map_threads();
  if (!g_.failed()) map_grid(forbids);
  if (g_.failed() || map_.empty()) return root;
  return map_graph(g_, root, [&](const Node* n, const NodeVec& src) { return replaced(n, src); });
}

}  // namespace

const Node* add_gpudims(Graph& g, const Node* root, const CodegenOptions& o) {
  return GpuDims(g, o).run(root);
}

}  // namespace modeld::codegen
