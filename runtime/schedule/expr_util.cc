#include "runtime/schedule/expr_util.h"

#include <algorithm>
#include <string_view>

#include "hal/base/status.h"

#include "runtime/ir/derived.h"
#include "runtime/schedule/create_schedule.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeMap;
using ir::NodeVec;
using ir::Op;

bool is_device_range(const Node* n) {
  return n->op == Op::kRange && n->as<ir::RangeArg>().type == ir::AxisType::kDevice;
}

bool is_scalar_param(const Node* n) {
  if (n->op == Op::kAfter) n = n->src(0);
  return n->op == Op::kParam && n->as<ir::ParamArg>().addrspace == ir::AddrSpace::kAlu;
}

bool is_state(const Node* n) {
  if (n->op == Op::kBuffer || n->op == Op::kMSelect || n->op == Op::kMStack) return true;
  return (n->op == Op::kParam || n->op == Op::kAfter) && !is_scalar_param(n);
}

std::string storage_name(const Node* buffer) {
  if (!buffer->has<ir::ParamArg>()) return ir::op_name(buffer->op);
  const auto& arg = buffer->as<ir::ParamArg>();
  if (!arg.name.empty()) return arg.name;
  return strf("%s %lld", buffer->op == Op::kParam ? "argument" : "buffer",
              static_cast<long long>(arg.slot));
}

Error name_arguments(Error e, std::span<const Node* const> args) {
  static constexpr std::string_view kWord = "argument ";
  for (size_t at = 0; (at = e.what.find(kWord, at)) != std::string::npos; at++) {
    const size_t from = at + kWord.size();
    size_t end = from, number = 0;
    for (; end < e.what.size() && e.what[end] >= '0' && e.what[end] <= '9'; end++) {
      number = std::min(number * 10 + static_cast<size_t>(e.what[end] - '0'), args.size());
    }
    if (end == from || number >= args.size()) continue;
    e.what.replace(at, end - at, storage_name(base_buffer(args[number])));
  }
  return e;
}

NodeVec expression_nodes(const Node* n) {
  return ir::toposort_until(n, [](const Node* s) { return is_state(s) || s->op == Op::kStage; });
}

const Node* zero_of(Graph& g, ir::DType t) {
  return ir::const_int(g, 0, t);
}

const Node* index_node(Graph& g, const Node* source, const NodeVec& idx, const Node* valid) {
  NodeVec src{source};
  src.insert(src.end(), idx.begin(), idx.end());
  if (src.size() > 1) src[1] = gate(g, src[1], valid);
  return g.make(Op::kIndex, source->dtype, src);
}

Access index_access(Graph& g, const Node* index) {
  Access a;
  for (const Node* i : index->src().subspan(1)) {
    const auto [idx, valid] = split_gate(g, i);
    a.idx.push_back(idx);
    a.valid = and_valid(g, a.valid, valid);
  }
  return a;
}

namespace {

bool uses_any(Graph& g, const Node* n, const NodeMap& map) {
  for (const Node* r : ir::ranges(g, n)) {
    if (map.contains(r)) return true;
  }
  return false;
}

const Node* rebuild(Graph& g,
                    const Node* n,
                    const std::unordered_map<const Node*, const Node*>& done) {
  NodeVec src(n->src().begin(), n->src().end());
  bool changed = false;
  for (const Node*& s : src) {
    const auto it = done.find(s);
    if (it == done.end() || it->second == s) continue;
    s = it->second;
    changed = true;
  }
  return changed ? g.with_src(n, src) : n;
}

}  // namespace

const Node* replace_ranges(Graph& g, const Node* n, const NodeMap& map) {
  if (const auto it = map.find(n); it != map.end()) return it->second;
  if (map.empty() || !uses_any(g, n, map)) return n;
  std::unordered_map<const Node*, const Node*> done;
  const NodeVec order = ir::toposort_until(n, [&](const Node* s) {
    return map.contains(s) || is_state(s) || s->op == Op::kStage || s->op == Op::kConst;
  });
  for (const Node* s : order) {
    const auto it = map.find(s);
    done[s] = it != map.end() ? it->second : rebuild(g, s, done);
  }
  return done.at(n);
}

const Node* replace_ranges_gated(Graph& g, const Node* n, const NodeMap& map, const Node* valid) {
  if (valid == nullptr) return replace_ranges(g, n, map);
  if (const auto it = map.find(n); it != map.end()) return it->second;
  std::unordered_map<const Node*, const Node*> done;
  const NodeVec order = ir::toposort_until(n, [&](const Node* s) {
    return map.contains(s) || is_state(s) || s->op == Op::kStage || s->op == Op::kConst;
  });
  for (const Node* s : order) {
    const auto it = map.find(s);
    const Node* next = it != map.end() ? it->second : rebuild(g, s, done);
    if (s->op == Op::kIndex && s->nsrc > 1) {
      const Access a = index_access(g, next);
      next = index_node(g, next->src(0), a.idx, and_valid(g, valid, a.valid));
    }
    done[s] = next;
  }
  return done.at(n);
}

}  // namespace modeld::schedule
