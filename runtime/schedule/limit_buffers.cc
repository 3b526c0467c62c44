#include "runtime/schedule/limit_buffers.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/schedule/expr_util.h"

namespace modeld::schedule {

using ir::AxisType;
using ir::Graph;
using ir::Node;
using ir::NodeMap;
using ir::NodeVec;
using ir::Op;

namespace {

bool by_id(const Node* a, const Node* b) {
  return a->id < b->id;
}

// The distinct buffers below each node, remembered: sets stay small because of the limit itself.
class BufferSets {
 public:
  const NodeVec& of(const Node* root) {
    const NodeVec order = ir::toposort_until(root, [&](const Node* n) {
      return sets_.contains(n) || is_state(n) || n->op == Op::kStage;
    });
    for (const Node* n : order) {
      if (!sets_.contains(n)) sets_[n] = compute(n);
    }
    return sets_.at(root);
  }

 private:
  NodeVec compute(const Node* n) {
    if (is_state(n) || n->op == Op::kStage) return {n};
    NodeVec all;
    for (const Node* s : n->src()) {
      const NodeVec& other = sets_.at(s);
      NodeVec merged;
      std::set_union(all.begin(), all.end(), other.begin(), other.end(), std::back_inserter(merged),
                     by_id);
      all = std::move(merged);
    }
    return all;
  }
  std::unordered_map<const Node*, NodeVec> sets_;
};

// value -> INDEX(STAGE(value over fresh loops), its own loops).
const Node* stage_operand(Graph& g, const Node* value, const ScheduleOptions& options) {
  NodeVec open = ir::ranges(g, value);
  std::erase_if(open, is_device_range);
  NodeMap fresh;
  NodeVec src{nullptr};
  for (const Node* r : open) {
    const Node* loop =
        g.make(Op::kRange, r->dtype, r->src(), ir::RangeArg{g.fresh(), AxisType::kWeak});
    fresh[r] = loop;
    src.push_back(loop);
  }
  src[0] = replace_ranges(g, value, fresh);
  ir::StageArg arg;
  arg.device = ir::device(g, value);
  if (arg.device.empty()) arg.device = options.device;
  const Node* stage = g.make(Op::kStage, value->dtype, src, std::move(arg));
  return index_node(g, stage, open, nullptr);
}

}  // namespace

Result<const Node*> limit_buffers(Graph& g, const Node* sink, const ScheduleOptions& options) {
  if (options.max_kernel_buffers <= 0) return sink;
  const auto limit = static_cast<size_t>(std::max<int64_t>(options.max_kernel_buffers - 1, 1));
  BufferSets sets;
  ir::RuleSet rules;
  rules.on(ir::kBroadcastableOps, "limit_buffers", [&](Graph& gr, const Node* n) -> const Node* {
    // Index math is not staged: what it reads belongs to the load it is part of.
    if (n->dtype == ir::DType::kWeakInt) return nullptr;
    if (sets.of(n).size() <= limit) return nullptr;
    NodeVec src;
    for (const Node* s : n->src()) {
      const bool stage = ir::kElementwiseOps.has(s->op) && !sets.of(s).empty();
      src.push_back(stage ? stage_operand(gr, s, options) : s);
    }
    return gr.with_src(n, src);
  });
  const Node* result = ir::rewrite(g, sink, rules);
  if (g.failed()) return fail(g.status().error());
  return result;
}

}  // namespace modeld::schedule
