#include "runtime/codegen/program_info.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/tensor_cores.h"
#include "runtime/ir/derived.h"

namespace modeld::codegen {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? INT64_MAX : out;
}

// `shares`: cores or work items of the launch that run the kernel's body.
int64_t run_count(Graph& g, const Node* n, int64_t shares) {
  int64_t runs = shares;
  for (const Node* r : ir::ranges(g, n)) runs = saturating_mul(runs, range_size(g, r));
  return runs;
}

// Elements a value or access has: vectors count each lane.
int64_t lanes_of(const std::unordered_map<const Node*, int64_t>& lanes, const Node* n) {
  const auto it = lanes.find(n);
  return it == lanes.end() ? 1 : it->second;
}

std::unordered_map<const Node*, int64_t> count_lanes(const NodeVec& order) {
  std::unordered_map<const Node*, int64_t> out;
  for (const Node* n : order) {
    int64_t lanes = 1;
    if (n->op == Op::kStack) lanes = n->nsrc;
    if (n->op == Op::kLoad) lanes = access_width(n->src(0));
    if (n->op == Op::kWmma) lanes = out[n->src(2)];
    if (ir::kElementwiseOps.has(n->op)) {
      for (const Node* s : n->src()) lanes = std::max(lanes, out[s]);
    }
    out[n] = lanes;
  }
  return out;
}

// Nodes that only compute addresses or gates.
std::unordered_set<const Node*> index_math(const NodeVec& order) {
  std::unordered_set<const Node*> values;  // reached from stored values without crossing addresses
  NodeVec work;
  for (const Node* n : order) {
    if (n->op == Op::kStore) work.push_back(n->src(1));
  }
  while (!work.empty()) {
    const Node* n = work.back();
    work.pop_back();
    if (!values.insert(n).second) continue;
    if (n->op == Op::kLoad) {
      if (n->nsrc > 1) work.push_back(n->src(1));
      continue;
    }
    if (n->op == Op::kIndex && is_address(n)) continue;
    for (const Node* s : n->src()) work.push_back(s);
  }
  std::unordered_set<const Node*> out;
  for (const Node* n : order) {
    if (!values.contains(n)) out.insert(n);
  }
  return out;
}

struct Traffic {
  std::map<std::pair<int64_t, bool>, int64_t> unique;  // (slot, store) -> bytes
  int64_t total = 0;
};

void add_access(Graph& g, const Node* n, int64_t lanes, int64_t shares, Traffic& t) {
  const Node* root = memory_root(n->src(0));
  if (root == nullptr || root->op != Op::kParam) return;
  const int64_t item = ir::item_size(root->dtype);
  const int64_t bytes = saturating_mul(run_count(g, n, shares), lanes * item);
  const int64_t size = saturating_mul(ir::element_count(g, root), item);
  t.total += bytes;
  int64_t& unique = t.unique[{root->as<ir::ParamArg>().slot, n->op == Op::kStore}];
  unique = std::min(size, unique + bytes);
}

// One thread's share of a matrix unit's step.
int64_t step_flops(const Node* n) {
  const TensorCore* core = find_tensor_core(n->as<ir::WmmaArg>().core);
  return core == nullptr ? 0 : 2 * core->n * core->m * core->k / core->threads;
}

void estimate(Graph& g, const NodeVec& order, ir::ProgramInfo& info) {
  const auto lanes = count_lanes(order);
  const auto skipped = index_math(order);
  int64_t shares = 1;
  for (size_t i = 0; i < 3; ++i) {
    shares = saturating_mul(shares, info.global_size[i] * std::max<int64_t>(info.local_size[i], 1));
  }
  Traffic traffic;
  for (const Node* n : order) {
    if (n->op == Op::kLoad) add_access(g, n, lanes_of(lanes, n), shares, traffic);
    if (n->op == Op::kStore) {
      add_access(g, n, access_width(n->src(0)), shares, traffic);
    }
    if (n->op == Op::kWmma) {
      info.flops += saturating_mul(run_count(g, n, shares), step_flops(n));
      continue;
    }
    if (!ir::kAluOps.has(n->op) || skipped.contains(n)) continue;
    const int64_t each = n->op == Op::kMulAcc ? 2 : 1;
    info.flops += saturating_mul(run_count(g, n, shares), lanes_of(lanes, n) * each);
  }
  info.lds_bytes = traffic.total;
  for (const auto& [key, bytes] : traffic.unique) info.mem_bytes += bytes;
}

}  // namespace

// A hardware index: its bound is a size of the launch. idxN: the device chooses the groups.
void add_special(const Node* n, ir::ProgramInfo& info) {
  const std::string& name = n->as<std::string>();
  const auto dim = static_cast<size_t>(name.back() - '0');
  const Node* bound = n->src(0)->op == Op::kCast ? n->src(0)->src(0) : n->src(0);
  const int64_t size = ir::int_value(bound).value_or(1);
  if (dim >= 3) return;
  (name[0] == 'l' ? info.local_size : info.global_size)[dim] = size;
  if (name[0] != 'i') return;
  for (int64_t& local : info.local_size) local = 0;
}

ir::ProgramInfo program_info(Graph& g, const Node* sink, const std::string& name) {
  ir::ProgramInfo info;
  info.name = name;
  std::set<int64_t> globals;
  std::set<int64_t> outs;
  std::set<int64_t> ins;
  std::map<int64_t, std::string> vars;
  const NodeVec order = ir::toposort(sink);
  for (const Node* n : order) {
    if (n->op == Op::kParam) {
      const auto& p = n->as<ir::ParamArg>();
      if (p.addrspace != ir::AddrSpace::kAlu) globals.insert(p.slot);
      if (p.addrspace == ir::AddrSpace::kAlu && p.slot >= 0) vars[p.slot] = p.name;
      if (p.name == "core_id" && p.slot < 0) info.global_size[0] = p.vmax + 1;
    }
    if (n->op == Op::kSpecial) add_special(n, info);
    if (n->op != Op::kLoad && n->op != Op::kStore) continue;
    const Node* root = memory_root(n->src(0));
    if (root == nullptr || root->op != Op::kParam) continue;
    (n->op == Op::kStore ? outs : ins).insert(root->as<ir::ParamArg>().slot);
  }
  info.globals.assign(globals.begin(), globals.end());
  info.outs.assign(outs.begin(), outs.end());
  info.ins.assign(ins.begin(), ins.end());
  for (const auto& [slot, text] : vars) info.vars.push_back(text);
  estimate(g, order, info);
  return info;
}

}  // namespace modeld::codegen
