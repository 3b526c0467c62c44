// early_symbolic, extra_symbolic, final_symbolic: the same simplifier at the three places of the
// table that need it, with the memory rules that only hold once loads are explicit. early: without
// it memory_coalescing misses groups. extra: the last moment index math is mathematical. final: the
// last generic simplification.
#include <algorithm>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

bool reaches_nothing(const Node* address) {
  for (size_t i = 1; is_address(address) && i < address->nsrc; ++i) {
    if (ir::is_invalid(address->src(i))) return true;
  }
  return false;
}

// A load through Invalid reads nothing and gives 0.
const Node* load_invalid(Graph& g, const Node* n) {
  if (!reaches_nothing(n->src(0))) return nullptr;
  return n->nsrc > 1 ? n->src(1) : ir::const_of(g, n->dtype, 0);
}

// A store through Invalid, or of no value, writes nothing.
const Node* store_invalid(Graph& g, const Node* n) {
  if (!reaches_nothing(n->src(0)) && !ir::is_invalid(n->src(1))) return nullptr;
  return g.make(Op::kNoop, ir::DType::kVoid, NodeVec{});
}

// Loops around nothing go with their body.
const Node* end_of_nothing(Graph&, const Node* n) {
  const Node* body = n->src(0);
  const bool empty = (body->op == Op::kNoop || body->op == Op::kGroup) && body->nsrc == 0;
  return empty || n->nsrc == 1 ? body : nullptr;
}

// INDEX of a vector written out.
const Node* element_of_stack(Graph&, const Node* n) {
  if (n->src(0)->op != Op::kStack || n->nsrc != 2) return nullptr;
  const auto i = ir::int_value(n->src(1));
  return i && *i >= 0 && *i < n->src(0)->nsrc ? n->src(0)->src(static_cast<size_t>(*i)) : nullptr;
}

const ir::RuleSet& memory_rules() {
  static const ir::RuleSet rules = [] {
    ir::RuleSet r;
    r.append(ir::sym_rules());
    r.on({Op::kLoad}, "load invalid", load_invalid);
    r.on({Op::kStore}, "store invalid", store_invalid);
    r.on({Op::kEnd}, "end of nothing", end_of_nothing);
    r.on({Op::kIndex}, "element of stack", element_of_stack, {Op::kStack});
    return r;
  }();
  return rules;
}

}  // namespace

const Node* early_symbolic(Graph& g, const Node* root, const CodegenOptions&) {
  return flatten_ranges(g, ir::rewrite(g, root, memory_rules()));
}

const Node* extra_symbolic(Graph& g, const Node* root, const CodegenOptions&) {
  return flatten_ranges(g, ir::rewrite(g, root, memory_rules()));
}

const Node* final_symbolic(Graph& g, const Node* root, const CodegenOptions&) {
  return ir::rewrite(g, root, memory_rules());
}

}  // namespace modeld::codegen
