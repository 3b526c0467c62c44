// remove_reduces. Needs REDUCE nodes over loop ranges, lanes taken together as STACK. Gives:
// accumulators in REG memory: init after the outer ranges, update in the loop, END, read after.
// Reduces over the same ranges that do not need each other share one loop; one that needs another's
// result gets ranges of its own.
#include <algorithm>
#include <map>
#include <set>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"
#include "runtime/codegen/wmma_sum.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

// From this many accumulators on, terms are added to the accumulator one by one: each step is one
// fused multiply-add and other lanes hide the latency.
constexpr size_t kChainedFrom = 16;

struct LoopGroup {
  NodeVec reduces;
};

class ReduceRemover {
 public:
  ReduceRemover(Graph& g, const CodegenOptions& o) : g_(g), o_(o) {}

  const Node* run(const Node* root) {
    const NodeVec order = ir::toposort(root);
    for (const LoopGroup& loop : make_groups(order)) make_loop(loop);
    return rebuild(root);
  }

 private:
  Graph& g_;
  const CodegenOptions& o_;
  NodeTable done_;
  std::map<const Node*, NodeVec> results_;  // per REDUCE, one value per lane
  std::set<const Node*> used_ranges_;

  std::vector<LoopGroup> make_groups(const NodeVec& order);
  const Node* rebuild(const Node* root);
  void make_loop(const LoopGroup& loop);
  NodeVec terms_of(const Node* value, Op op, size_t lanes) const;
};

// Groups in an order where every group only needs earlier ones.
std::vector<LoopGroup> ReduceRemover::make_groups(const NodeVec& order) {
  std::vector<LoopGroup> out;
  std::map<std::vector<uint32_t>, size_t> index;  // level, outer ranges, own ranges -> group
  std::vector<std::pair<uint32_t, size_t>> by_level;
  std::vector<uint32_t> level(order.empty() ? 0 : order.back()->id + size_t{1}, 0);
  for (const Node* n : order) {
    if (level.size() <= n->id) level.resize(n->id + size_t{1}, 0);
    for (const Node* s : n->src()) level[n->id] = std::max(level[n->id], level[s->id]);
    if (n->op != Op::kReduce) continue;
    level[n->id] += 1;
    std::vector<uint32_t> key{level[n->id]};
    for (const Node* r : n->src().subspan(1)) key.push_back(r->id);
    key.push_back(UINT32_MAX);
    for (const Node* r : ir::ranges(g_, n)) key.push_back(r->id);
    const auto [it, fresh] = index.emplace(key, out.size());
    if (fresh) {
      by_level.emplace_back(level[n->id], out.size());
      out.push_back({});
    }
    out[it->second].reduces.push_back(n);
  }
  std::stable_sort(by_level.begin(), by_level.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<LoopGroup> sorted;
  for (const auto& [l, i] : by_level) sorted.push_back(std::move(out[i]));
  return sorted;
}

// Reduces made so far are read from their accumulators.
const Node* ReduceRemover::rebuild(const Node* root) {
  if (const Node* known = done_.get(root)) return known;
  const NodeVec order =
      ir::toposort_until(root, [&](const Node* n) { return done_.get(n) != nullptr; });
  NodeVec src;
  for (const Node* n : order) {
    if (done_.get(n) != nullptr) continue;
    const Node* value = n->op == Op::kIndex ? n->src(0) : n;
    if (value->op == Op::kReduce) {
      const auto it = results_.find(value);
      if (it != results_.end()) {
        const size_t lane =
            n == value ? 0 : static_cast<size_t>(ir::int_value(n->src(1)).value_or(0));
        done_.set(n, it->second[lane]);
        continue;
      }
    }
    src.clear();
    for (const Node* s : n->src()) src.push_back(done_.get(s));
    done_.set(n, rebuilt(g_, n, src));
  }
  return done_.get(root);
}

bool adds_wmma_elements(const Node* n) {
  return is_wmma_element(n) || (n->op == Op::kAdd && is_wmma_element(n->src(1)));
}

// The value as terms of `op`, in order; one term unless there are many accumulators, or a matrix
// unit could add them itself.
NodeVec ReduceRemover::terms_of(const Node* value, Op op, size_t lanes) const {
  NodeVec out{value};
  const bool chained = o_.heuristic == Heuristic::kCpu && lanes >= kChainedFrom;
  if (!chained && !adds_wmma_elements(value)) return out;
  while (out.back()->op == op) {
    const Node* n = out.back();
    out.back() = n->src(1);
    out.push_back(n->src(0));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

void ReduceRemover::make_loop(const LoopGroup& loop) {
  const Node* first = loop.reduces[0];
  NodeVec own(first->src().begin() + 1, first->src().end());
  ir::NodeMap renames;
  for (const Node*& r : own) {
    const Node* original = r;
    if (!used_ranges_.insert(original).second) {
      r = ir::range(g_, range_size(g_, original), g_.fresh(), original->as<ir::RangeArg>().type);
      renames[original] = r;
    }
  }
  const NodeVec outer = ir::ranges(g_, first);
  NodeVec updates;
  std::vector<const Node*> buffers;
  for (const Node* reduce : loop.reduces) {
    const Op op = reduce->as<ir::ReduceArg>().op;
    const Node* value = rebuild(reduce->src(0));
    if (!renames.empty()) value = rename_open_ranges(g_, value, renames);
    const NodeVec lanes = value->op == Op::kStack
                              ? NodeVec(value->src().begin(), value->src().end())
                              : NodeVec{value};
    const Node* acc = ir::buffer(g_, g_.fresh(), reduce->dtype, static_cast<int64_t>(lanes.size()),
                                 ir::AddrSpace::kReg, "");
    buffers.push_back(acc);
    const auto element = [&](const Node* state, size_t i) {
      return g_.make(Op::kIndex, reduce->dtype,
                     {state, ir::const_int(g_, static_cast<int64_t>(i))});
    };
    const Node* before = after(g_, acc, outer);
    const Node* neutral = identity_of(g_, op, reduce->dtype);
    NodeVec init;
    for (size_t i = 0; i < lanes.size(); ++i) {
      init.push_back(g_.make(Op::kStore, ir::DType::kVoid, {element(before, i), neutral}));
    }
    if (own.empty()) {
      // Nothing repeats: the lanes themselves are the result, as one vector.
      for (size_t i = 0; i < lanes.size(); ++i) {
        updates.push_back(g_.make(Op::kStore, ir::DType::kVoid, {element(before, i), lanes[i]}));
      }
      continue;
    }
    NodeVec deps{group(g_, init)};
    deps.insert(deps.end(), own.begin(), own.end());
    const Node* inside = after(g_, acc, deps);
    NodeVec sums;
    std::vector<NodeVec> terms;
    for (size_t i = 0; i < lanes.size(); ++i) {
      sums.push_back(element(inside, i));
      terms.push_back(terms_of(lanes[i], op, lanes.size()));
    }
    sums = add_terms(g_, op, sums, terms);
    for (size_t i = 0; i < lanes.size(); ++i) {
      updates.push_back(g_.make(Op::kStore, ir::DType::kVoid, {element(inside, i), sums[i]}));
    }
  }
  NodeVec closing{group(g_, updates)};
  closing.insert(closing.end(), own.begin(), own.end());
  const Node* end = own.empty() ? closing[0] : g_.make(Op::kEnd, ir::DType::kVoid, closing);
  for (size_t k = 0; k < loop.reduces.size(); ++k) {
    const Node* done = after(g_, buffers[k], {end});
    const int64_t n = ir::int_value(buffers[k]->src(0)).value_or(1);
    for (int64_t i = 0; i < n; ++i) {
      results_[loop.reduces[k]].push_back(
          g_.make(Op::kIndex, buffers[k]->dtype, {done, ir::const_int(g_, i)}));
    }
  }
}

}  // namespace

const Node* remove_reduces(Graph& g, const Node* root, const CodegenOptions& o) {
  return ReduceRemover(g, o).run(root);
}

}  // namespace modeld::codegen
