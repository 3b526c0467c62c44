// final_rewrite. Needs everything above. Gives: one range per END, nested with the highest id
// innermost; no Invalid, no weak type left, effect lists flat. Rules of a renderer come last, so
// that nothing rewrites what they made.
#include <algorithm>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

const Node* split_end(Graph& g, const Node* n) {
  if (n->nsrc <= 2) return nullptr;
  NodeVec ranges(n->src().begin() + 1, n->src().end());
  std::stable_sort(ranges.begin(), ranges.end(), [](const Node* a, const Node* b) {
    return a->as<ir::RangeArg>().id > b->as<ir::RangeArg>().id;
  });
  const Node* body = n->src(0);
  for (const Node* r : ranges) body = g.make(Op::kEnd, ir::DType::kVoid, {body, r});
  return body;
}

const Node* flat_effects(Graph& g, const Node* n) {
  NodeVec src;
  bool changed = false;
  for (const Node* s : n->src()) {
    if (s->op == Op::kGroup || (s->op == Op::kNoop && s->nsrc == 0)) {
      src.insert(src.end(), s->src().begin(), s->src().end());
      changed = true;
    } else {
      src.push_back(s);
    }
  }
  return changed ? g.with_src(n, src) : nullptr;
}

const Node* commit(Graph& g, const Node* n) {
  if (ir::is_invalid(n)) return ir::const_of(g, ir::strong(n->dtype), 0);
  return nullptr;
}

}  // namespace

const Node* final_rewrite(Graph& g, const Node* root, const CodegenOptions&) {
  ir::RuleSet rules;
  rules.on({Op::kConst}, "commit", commit);
  rules.on({Op::kEnd}, "split end", split_end);
  rules.on({Op::kSink, Op::kGroup}, "flat effects", flat_effects);
  return ir::rewrite(g, root, rules);
}

}  // namespace modeld::codegen
