#include "runtime/schedule/remove_bufferize.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/ir/symbolic.h"
#include "runtime/schedule/expr_util.h"
#include "runtime/schedule/reduce_simplify.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeMap;
using ir::NodeVec;
using ir::Op;
using ir::RuleSet;

namespace {

bool is_memory(const Node* n) {
  return is_state(n) || n->op == Op::kStage;
}

// Same value at the same indices: nothing to store.
bool stores_itself(const Node* store) {
  const Node* value = store->src(1);
  return value == store->src(0);
}

// A loop of a STAGE that its value does not depend on: one element serves the whole axis.
const Node* drop_dead_axes(Graph& g, const Node* index) {
  const Node* stage = index->src(0);
  if (!stage->as<ir::StageArg>().removable) return nullptr;
  const NodeVec& used = ir::ranges(g, stage->src(0));
  NodeVec kept{stage->src(0)};
  const Access a = index_access(g, index);
  NodeVec idx;
  for (size_t i = 0; i < a.idx.size(); i++) {
    if (std::find(used.begin(), used.end(), stage->src(i + 1)) == used.end()) continue;
    kept.push_back(stage->src(i + 1));
    idx.push_back(a.idx[i]);
  }
  if (idx.size() == a.idx.size()) return nullptr;
  return index_node(g, g.with_src(stage, kept), idx, a.valid);
}

// The staged value at the index. Loops of reduces inside get new numbers: two copies of one reduce
// in one kernel must not share a loop.
const Node* inline_stage(Graph& g, const Node* index) {
  const Node* stage = index->src(0);
  const Access a = index_access(g, index);
  NodeMap map;
  for (size_t i = 0; i < a.idx.size(); i++) map[stage->src(i + 1)] = a.idx[i];
  for (const Node* n : expression_nodes(stage->src(0))) {
    if (n->op != Op::kReduce) continue;
    for (const Node* r : n->src().subspan(1)) {
      if (map.contains(r)) continue;
      map[r] = g.make(Op::kRange, r->dtype, r->src(),
                      ir::RangeArg{g.fresh(), r->as<ir::RangeArg>().type});
    }
  }
  return replace_ranges_gated(g, stage->src(0), map, a.valid);
}

// A STAGE that only repeats another one, element for element, is that one.
const Node* stage_of_stage(const Node* n) {
  const Node* read = n->src(0);
  if (read->op != Op::kIndex || read->src(0)->op != Op::kStage) return nullptr;
  const Node* inner = read->src(0);
  if (n->nsrc != read->nsrc || n->nsrc != inner->nsrc) return nullptr;
  for (size_t i = 1; i < n->nsrc; i++) {
    if (read->src(i) != n->src(i) || inner->src(i)->src(0) != n->src(i)->src(0)) return nullptr;
  }
  const auto &outer_arg = n->as<ir::StageArg>(), &inner_arg = inner->as<ir::StageArg>();
  if (outer_arg.device != inner_arg.device) return nullptr;
  // What was asked for must not go with an inner one that may.
  return outer_arg.removable || !inner_arg.removable ? inner : nullptr;
}

// The store of a whole buffer, and what it stores is Invalid.
bool unsets_all(Graph& g, const Node* effect, const Node* buffer) {
  int64_t count = 1;
  for (const Node* r : effect->src().subspan(effect->op == Op::kEnd ? 1 : effect->nsrc)) {
    count *= ir::vmax(g, r) + 1;
  }
  const Node* store = effect->op == Op::kEnd ? effect->src(0) : effect;
  return store->op == Op::kStore && ir::is_invalid(store->src(1)) &&
         count == ir::element_count(g, buffer);
}

bool reads_unset(Graph& g, const Node* n) {
  if (n->op != Op::kIndex) return false;
  const Node* state = n->src(0);
  if (state->op != Op::kAfter || is_scalar_param(state) || state->nsrc < 2) return false;
  const auto items = state->src().subspan(1);
  return std::all_of(items.begin(), items.end(),
                     [&](const Node* d) { return unsets_all(g, d, state->src(0)); });
}

// Elements that nobody gave a value have none. The place of a store is no read.
const Node* without_unset_reads(Graph& g, const Node* n) {
  const bool has_place = n->op == Op::kStore || n->op == Op::kIndex;
  NodeVec src(n->src().begin(), n->src().end());
  bool changed = false;
  for (size_t i = has_place ? 1 : 0; i < src.size(); i++) {
    if (!reads_unset(g, src[i])) continue;
    src[i] = ir::const_invalid(g, src[i]->dtype);
    changed = true;
  }
  return changed ? g.with_src(n, src) : nullptr;
}

class Cleanup {
 public:
  explicit Cleanup(int64_t inline_max_buffers) : inline_max_buffers_(inline_max_buffers) {
    rules_.on({Op::kStage}, "stage_of_const",
              [](Graph&, const Node* n) { return ir::is_const(n->src(0)) ? n->src(0) : nullptr; });
    rules_.on({Op::kStage}, "stage_of_stage",
              [](Graph&, const Node* n) { return stage_of_stage(n); }, {Op::kIndex});
    static constexpr ir::OpSet kReaders =
        ir::kElementwiseOps |
        ir::OpSet{Op::kReduce, Op::kStore, Op::kIndex, Op::kStage, Op::kContiguous};
    rules_.on(kReaders, "without_unset_reads", without_unset_reads, {Op::kIndex});
    rules_.on({Op::kIndex}, "index_of_const",
              [](Graph&, const Node* n) { return ir::is_const(n->src(0)) ? n->src(0) : nullptr; });
    rules_.on({Op::kIndex}, "index_stage",
              [this](Graph& g, const Node* n) { return index_stage(g, n); }, {Op::kStage});
    rules_.on({Op::kStore}, "store_itself", [](Graph& g, const Node* n) {
      return stores_itself(n) ? g.make(Op::kNoop, ir::DType::kVoid, {}) : nullptr;
    });
    rules_.on({Op::kEnd}, "end_of_nothing", [](Graph&, const Node* n) {
      return n->src(0)->op == Op::kNoop ? n->src(0) : nullptr;
    });
    rules_.on({Op::kAfter}, "after_nothing",
              [](Graph& g, const Node* n) { return after_nothing(g, n); }, {Op::kNoop});
    rules_.on({Op::kReduce}, "reduce_simplify",
              [](Graph& g, const Node* n) { return reduce_simplify(g, n); });
    rules_.on({Op::kIndex}, "index_given_gate",
              [this](Graph& g, const Node* n) { return index_given_gate(g, n); }, {Op::kWhere});
    rules_.append(ir::symbolic_rules());
  }

  const Node* run(Graph& g, const Node* sink) { return ir::rewrite(g, sink, rules_); }

 private:
  const Node* index_stage(Graph& g, const Node* n) {
    if (n->src(0)->op != Op::kStage) return nullptr;
    if (const Node* smaller = drop_dead_axes(g, n)) return smaller;
    const auto [it, is_new] = verdicts_.try_emplace(n->src(0), StageVerdict::kKeep);
    if (is_new) it->second = stage_verdict(g, n->src(0), inline_max_buffers_);
    return it->second == StageVerdict::kInline ? inline_stage(g, n) : nullptr;
  }

  // Index math may use what its gate says.
  const Node* index_given_gate(Graph& g, const Node* n) {
    if (n->src(1)->op != Op::kWhere || !simplified_.insert(n).second) return nullptr;
    Access a = index_access(g, n);
    if (a.valid == nullptr) return nullptr;
    for (const Node*& i : a.idx) i = ir::simplify_given(g, i, a.valid);
    const Node* result = index_node(g, n->src(0), a.idx, a.valid);
    simplified_.insert(result);
    return result;
  }

  static const Node* after_nothing(Graph& g, const Node* n) {
    NodeVec src;
    for (const Node* s : n->src()) {
      if (s->op != Op::kNoop) src.push_back(s);
    }
    return src.size() == 1 ? src[0] : g.with_src(n, src);
  }

  int64_t inline_max_buffers_;
  RuleSet rules_;
  std::unordered_map<const Node*, StageVerdict> verdicts_;
  std::unordered_set<const Node*> simplified_;
};

}  // namespace

StageVerdict stage_verdict(Graph& g, const Node* stage, int64_t inline_max_buffers) {
  (void)g;
  if (!stage->as<ir::StageArg>().removable) return StageVerdict::kKeep;
  std::unordered_set<const Node*> buffers;
  NodeVec reduces;
  for (const Node* n : expression_nodes(stage->src(0))) {
    if (n->op == Op::kContiguous) return StageVerdict::kKeep;
    if (is_memory(n)) buffers.insert(n);
    if (n->op == Op::kReduce) reduces.push_back(n);
  }
  if (static_cast<int64_t>(buffers.size()) > inline_max_buffers) return StageVerdict::kKeep;
  for (const Node* r : reduces) {
    for (const Node* n : expression_nodes(r->src(0))) {
      if (is_memory(n)) return StageVerdict::kKeep;
    }
  }
  return StageVerdict::kInline;
}

Result<const Node*> remove_bufferize(Graph& g, const Node* sink, const ScheduleOptions& options) {
  Cleanup cleanup(options.inline_max_buffers);
  const Node* result = cleanup.run(g, sink);
  if (g.failed()) return fail(g.status().error());
  return result;
}

}  // namespace modeld::schedule
