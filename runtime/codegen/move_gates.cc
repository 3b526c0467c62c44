// move_gates. Needs gates inside the index. Gives: address and gate apart, LOAD(address, alt, gate)
// and STORE(address, value, gate), as renderers want them; a WHERE on the same gate becomes the
// load's alternative.
#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

// The address without its gate, and the gate; null if there is none.
const Node* ungated(Graph& g, const Node* address, const Node** gate) {
  if (!is_address(address)) return nullptr;
  NodeVec src(address->src().begin(), address->src().end());
  *gate = nullptr;
  for (size_t i = 1; i < src.size(); ++i) {
    const GatedIndex at = split_gate(src[i]);
    if (at.gate == nullptr) continue;
    *gate = *gate == nullptr ? at.gate : ir::land(g, *gate, at.gate);
    src[i] = at.index;
  }
  return *gate == nullptr ? nullptr : g.with_src(address, src);
}

const Node* gated_load(Graph& g, const Node* n) {
  const Node* gate = nullptr;
  const Node* address = n->nsrc == 1 ? ungated(g, n->src(0), &gate) : nullptr;
  if (address == nullptr) return nullptr;
  return g.with_src(n, {address, ir::const_of(g, n->dtype, 0), gate});
}

const Node* gated_store(Graph& g, const Node* n) {
  const Node* gate = nullptr;
  const Node* address = n->nsrc == 2 ? ungated(g, n->src(0), &gate) : nullptr;
  return address == nullptr ? nullptr : g.with_src(n, {address, n->src(1), gate});
}

// WHERE(gate, LOAD(a, 0, gate), alt) -> LOAD(a, alt, gate). Only for scalars: the alternative of a
// vector load is one scalar for all lanes.
const Node* where_into_load(Graph& g, const Node* n) {
  const Node* load = n->src(1);
  if (load->op != Op::kLoad || load->nsrc != 3 || load->src(2) != n->src(0)) return nullptr;
  if (load->src(0)->op != Op::kIndex || load->dtype != n->dtype) return nullptr;
  return g.with_src(load, {load->src(0), n->src(2), load->src(2)});
}

}  // namespace

const Node* move_gates(Graph& g, const Node* root, const CodegenOptions&) {
  ir::RuleSet rules;
  rules.on({Op::kLoad}, "gated load", gated_load);
  rules.on({Op::kStore}, "gated store", gated_store);
  rules.on({Op::kWhere}, "where into load", where_into_load);
  return ir::rewrite(g, root, rules);
}

}  // namespace modeld::codegen
