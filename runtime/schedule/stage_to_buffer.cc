#include "runtime/schedule/stage_to_buffer.h"

#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/schedule/expr_util.h"
#include "runtime/schedule/index_transform.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

std::vector<int64_t> stage_dims(Graph& g, const Node* stage) {
  std::vector<int64_t> dims;
  for (const Node* r : stage->src().subspan(1)) dims.push_back(ir::vmax(g, r) + 1);
  return dims;
}

int64_t product(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// STAGE -> AFTER(BUFFER, END(STORE(INDEX(BUFFER, flat), value), ranges)).
const Node* to_state(Graph& g, const Node* stage) {
  const auto& arg = stage->as<ir::StageArg>();
  const std::vector<int64_t> dims = stage_dims(g, stage);
  const ir::DType dtype = ir::strong(stage->dtype);
  const Node* buffer =
      ir::buffer(g, g.fresh(), dtype, product(dims), ir::AddrSpace::kGlobal, arg.device);
  const NodeVec loops(stage->src().begin() + 1, stage->src().end());
  IndexTransform transform(g);
  const Node* place = index_node(g, buffer, {transform.flatten(dims, loops)}, nullptr);
  const Node* value = ir::cast(g, stage->src(0), dtype);
  NodeVec end{g.make(Op::kStore, ir::DType::kVoid, {place, value})};
  end.insert(end.end(), loops.begin(), loops.end());
  const Node* done = loops.empty() ? end[0] : g.make(Op::kEnd, ir::DType::kVoid, end);
  return g.make(Op::kAfter, dtype, {buffer, done});
}

// A store of no value is no work, nor is what only waits on such.
const Node* drop_unset(Graph& g, const Node* n) {
  if (n->op == Op::kStore) {
    return ir::is_invalid(n->src(1)) ? g.make(Op::kNoop, ir::DType::kVoid, {}) : nullptr;
  }
  if (n->op == Op::kEnd) return n->src(0)->op == Op::kNoop ? n->src(0) : nullptr;
  NodeVec src;
  for (const Node* s : n->src()) {
    if (s->op != Op::kNoop) src.push_back(s);
  }
  if (src.size() == n->nsrc) return nullptr;
  return n->op == Op::kAfter && src.size() == 1 ? src[0] : g.with_src(n, src);
}

}  // namespace

Result<const Node*> stage_to_buffer(Graph& g, const Node* sink, const ScheduleOptions& options) {
  (void)options;
  std::unordered_map<const Node*, std::pair<const Node*, std::vector<int64_t>>> states;
  ir::RuleSet rules;
  IndexTransform transform(g);
  // Children first: the STAGE's value is final when its reader is seen.
  const auto state_of = [&](const Node* stage) {
    auto it = states.find(stage);
    if (it == states.end()) {
      it = states.emplace(stage, std::pair(to_state(g, stage), stage_dims(g, stage))).first;
    }
    return it->second;
  };
  rules.on({Op::kIndex}, "index_stage",
           [&](Graph& gr, const Node* n) -> const Node* {
             if (n->src(0)->op != Op::kStage) return nullptr;
             const auto [state, dims] = state_of(n->src(0));
             const Access a = index_access(gr, n);
             const Node* flat = transform.flatten(dims, a.idx);
             return ir::cast(gr, index_node(gr, state, {flat}, a.valid), n->dtype);
           },
           {Op::kStage});
  rules.on({Op::kCall}, "call_stage",
           [&](Graph& gr, const Node* n) -> const Node* {
             NodeVec src(n->src().begin(), n->src().end());
             for (const Node*& s : src) {
               if (s->op == Op::kStage) s = state_of(s).first;
             }
             return gr.with_src(n, src);
           },
           {Op::kStage});
  rules.on({Op::kStore, Op::kEnd, Op::kAfter}, "drop_unset", drop_unset);
  const Node* result = ir::rewrite(g, sink, rules);
  if (g.failed()) return fail(g.status().error());
  return result;
}

}  // namespace modeld::schedule
