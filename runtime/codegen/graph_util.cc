#include "runtime/codegen/graph_util.h"

#include <algorithm>
#include <limits>

namespace modeld::codegen {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

const Node* rebuilt(Graph& g, const Node* n, const NodeVec& src) {
  return std::equal(src.begin(), src.end(), n->srcs, n->srcs + n->nsrc) ? n : g.with_src(n, src);
}

bool closes_ranges(const Node* n) {
  return n->op == Op::kEnd || n->op == Op::kReduce;
}

NodeVec flat_ranges(const NodeVec& closed) {
  NodeVec out;
  for (const Node* c : closed) {
    for (const Node* n : ir::toposort_until(c, [](const Node* s) { return s->op == Op::kRange; })) {
      if (n->op == Op::kRange && std::find(out.begin(), out.end(), n) == out.end()) {
        out.push_back(n);
      }
    }
  }
  return out;
}

namespace {

const Node* flattened(Graph& g, const Node* n, const NodeVec& src) {
  NodeVec flat{src[0]};
  const NodeVec closed = flat_ranges({src.begin() + 1, src.end()});
  flat.insert(flat.end(), closed.begin(), closed.end());
  if (n->op == Op::kReduce && closed.empty()) return src[0];
  return rebuilt(g, n, flat);
}

}  // namespace

const Node* replace_ranges(Graph& g, const Node* root, const ir::NodeMap& map) {
  return map_graph(g, root, [&](const Node* n, const NodeVec& src) -> const Node* {
    const auto it = map.find(n);
    if (it != map.end()) return it->second;
    return closes_ranges(n) ? flattened(g, n, src) : rebuilt(g, n, src);
  });
}

const Node* flatten_ranges(Graph& g, const Node* root) {
  return replace_ranges(g, root, {});
}

const Node* rename_open_ranges(Graph& g, const Node* root, const ir::NodeMap& map) {
  const auto open = [&](const Node* n) {
    for (const auto& [from, to] : map) {
      if (ir::depends_on(g, n, from)) return true;
    }
    return false;
  };
  NodeTable renamed;
  NodeVec src;
  for (const Node* n : ir::toposort_until(root, [&](const Node* s) { return !open(s); })) {
    const auto it = map.find(n);
    if (it != map.end() || !open(n)) {
      renamed.set(n, it != map.end() ? it->second : n);
      continue;
    }
    src.clear();
    for (const Node* s : n->src()) src.push_back(renamed.get(s));
    renamed.set(n, rebuilt(g, n, src));
  }
  return renamed.get(root);
}

NodeVec all_ranges(const Node* root) {
  NodeVec out;
  for (const Node* n : ir::toposort(root)) {
    if (n->op == Op::kRange) out.push_back(n);
  }
  std::stable_sort(out.begin(), out.end(), [](const Node* a, const Node* b) {
    const auto& x = a->as<ir::RangeArg>();
    const auto& y = b->as<ir::RangeArg>();
    const int px = ir::axis_position(x.type);
    const int py = ir::axis_position(y.type);
    return px != py ? px < py : x.id < y.id;
  });
  return out;
}

int64_t range_size(Graph& g, const Node* rng) {
  return ir::vmax(g, rng) + 1;
}

GatedIndex split_gate(const Node* index) {
  if (index->op == Op::kWhere && ir::is_invalid(index->src(2))) {
    return {index->src(0), index->src(1)};
  }
  return {nullptr, index};
}

const Node* join_gate(Graph& g, const Node* gate, const Node* index) {
  if (gate == nullptr) return index;
  return ir::where(g, gate, index, ir::const_invalid(g, index->dtype));
}

BaseOffset split_offset(const Node* index) {
  if (const auto v = ir::int_value(index)) return {nullptr, *v};
  if (index->op == Op::kAdd) {
    if (const auto v = ir::int_value(index->src(1))) {
      BaseOffset inner = split_offset(index->src(0));
      return {inner.base, inner.offset + *v};
    }
    if (const auto v = ir::int_value(index->src(0))) {
      BaseOffset inner = split_offset(index->src(1));
      return {inner.base, inner.offset + *v};
    }
  }
  return {index, 0};
}

const Node* memory_root(const Node* n) {
  while (n->op == Op::kAfter || n->op == Op::kIndex || n->op == Op::kShrink) n = n->src(0);
  const bool storage = n->op == Op::kBuffer || n->op == Op::kParam;
  return storage && n->as<ir::ParamArg>().addrspace != ir::AddrSpace::kAlu ? n : nullptr;
}

bool is_address(const Node* n) {
  return (n->op == Op::kIndex || n->op == Op::kShrink) && memory_root(n) != nullptr;
}

ir::AddrSpace memory_space(const Node* root) {
  return root->as<ir::ParamArg>().addrspace;
}

int64_t access_width(const Node* address) {
  if (address->op == Op::kShrink) return ir::int_value(address->src(2)).value_or(1);
  return address->op == Op::kIndex && address->nsrc == 3 ? 4 : 1;
}

const Node* after(Graph& g, const Node* value, const NodeVec& deps) {
  if (deps.empty()) return value;
  NodeVec src{value};
  src.insert(src.end(), deps.begin(), deps.end());
  return g.make(Op::kAfter, value->dtype, src);
}

const Node* group(Graph& g, const NodeVec& effects) {
  if (effects.size() == 1) return effects[0];
  return g.make(Op::kGroup, ir::DType::kVoid, effects);
}

const Node* identity_of(Graph& g, Op op, ir::DType t) {
  if (op == Op::kAdd) return ir::const_of(g, t, 0);
  if (op == Op::kMul) return ir::const_of(g, t, 1);
  if (ir::is_float(t)) return ir::const_of(g, t, -std::numeric_limits<double>::infinity());
  return ir::const_int(g, ir::int_min(t), t);
}

}  // namespace modeld::codegen
