// memory_coalescing. Needs scalar loads and stores with canonical index math. Gives: runs of
// consecutive elements under one validity mask as one vector access, SHRINK(buffer, start, width).
// Widths are the renderer's; unless it takes unaligned vectors, the start must be provably a
// multiple of the width. REG memory has no addresses; volatile accesses keep count, width, order.
#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

constexpr uint32_t kNone = UINT32_MAX;

// (is store, buffer state, base, gate) by node id: creation order, the same in every process.
using Key = std::tuple<bool, uint32_t, uint32_t, uint32_t>;

struct Access {
  GatedIndex at;
  BaseOffset where;
};

struct Group {
  const Node* buffer = nullptr;
  const Node* base = nullptr;
  const Node* gate = nullptr;
  std::map<int64_t, const Node*> by_offset;  // original LOAD or STORE
};

// Where an original access ended up: element `lane` of a run.
struct Place {
  size_t run = 0;
  int64_t lane = 0;
};

struct Run {
  const Group* group;
  int64_t offset;
  int64_t width;
  const Node* made = nullptr;
};

class Coalescer {
 public:
  Coalescer(Graph& g, const CodegenOptions& o) : g_(g), o_(o) {}
  const Node* run(const Node* root);

 private:
  Graph& g_;
  const CodegenOptions& o_;
  std::map<Key, Group> groups_;
  std::vector<Run> runs_;
  std::map<const Node*, Place> places_;
  std::vector<NodeVec> values_;  // per run of stores, what has been seen so far
  std::vector<int64_t> seen_;

  void collect(const Node* n);
  void cut(const Group& group);
  int64_t width_at(const Group& group, int64_t offset, int64_t length) const;
  const Node* address(const Run& run, const Node* buffer, const Node* index);
  const Node* vector_load(const Node* n, const NodeVec& src);
  // The last store of a run becomes the vector store, the others nothing: all stand in one GROUP.
  const Node* vector_store(const Node* n, const NodeVec& src);
};

bool is_candidate(const Node* n) {
  if ((n->op != Op::kLoad && n->op != Op::kStore) || n->src(0)->op != Op::kIndex) return false;
  if (n->op == Op::kLoad && n->nsrc != 1) return false;
  const Node* address = n->src(0);
  const Node* root = memory_root(address);
  if (address->nsrc != 2 || root == nullptr) return false;
  const auto& p = root->as<ir::ParamArg>();
  return p.addrspace != ir::AddrSpace::kReg && !p.is_volatile && !ir::is_invalid(address->src(1));
}

void Coalescer::collect(const Node* n) {
  const Node* address = n->src(0);
  const GatedIndex at = split_gate(address->src(1));
  const BaseOffset where = split_offset(at.index);
  const Key key{n->op == Op::kStore, address->src(0)->id,
                where.base != nullptr ? where.base->id : kNone,
                at.gate != nullptr ? at.gate->id : kNone};
  Group& group = groups_[key];
  group.buffer = address->src(0);
  group.base = where.base;
  group.gate = at.gate;
  const auto [it, fresh] = group.by_offset.emplace(where.offset, n);
  if (fresh) return;
  if (n->op == Op::kStore) {
    g_.fail(Errc::kInternal, strf("memory_coalescing: two stores to offset %lld of one group",
                                  static_cast<long long>(where.offset)));
  }
}

int64_t Coalescer::width_at(const Group& group, int64_t offset, int64_t length) const {
  const Node* root = memory_root(group.buffer);
  for (int64_t w : o_.caps.widths(root->dtype)) {
    if (w > length) continue;
    const bool base_ok = group.base == nullptr || ir::const_factor(g_, group.base) % w == 0;
    if (o_.caps.unaligned_vectors || (base_ok && offset % w == 0)) return w;
  }
  return 1;
}

void Coalescer::cut(const Group& group) {
  auto it = group.by_offset.begin();
  while (it != group.by_offset.end()) {
    int64_t length = 0;
    for (auto at = it; at != group.by_offset.end() && at->first == it->first + length; ++at) {
      length += 1;
    }
    for (int64_t done = 0; done < length;) {
      const int64_t w = width_at(group, it->first, length - done);
      if (w > 1) runs_.push_back({&group, it->first, w});
      for (int64_t lane = 0; lane < w; ++lane, ++it) {
        if (w > 1) places_[it->second] = {runs_.size() - 1, lane};
      }
      done += w;
    }
  }
}

// `index` is the rebuilt index of any member; the run's start is put in place of its offset.
const Node* Coalescer::address(const Run& run, const Node* buffer, const Node* index) {
  const GatedIndex at = split_gate(index);
  const BaseOffset where = split_offset(at.index);
  const Node* start = where.base == nullptr ? ir::const_int(g_, run.offset, at.index->dtype)
                                            : ir::add_const(g_, where.base, run.offset);
  return g_.make(Op::kShrink, memory_root(buffer)->dtype,
                 {buffer, join_gate(g_, at.gate, start), ir::const_int(g_, run.width)});
}

const Node* Coalescer::vector_load(const Node* n, const NodeVec& src) {
  const Place place = places_.at(n);
  Run& run = runs_[place.run];
  if (run.made == nullptr) {
    run.made = g_.make(Op::kLoad, n->dtype, {address(run, src[0]->src(0), src[0]->src(1))});
  }
  return g_.make(Op::kIndex, n->dtype, {run.made, ir::const_int(g_, place.lane)});
}

const Node* Coalescer::vector_store(const Node* n, const NodeVec& src) {
  const Place place = places_.at(n);
  const Run& run = runs_[place.run];
  NodeVec& v = values_[place.run];
  v.resize(static_cast<size_t>(run.width));
  v[static_cast<size_t>(place.lane)] = src[1];
  if (++seen_[place.run] < run.width) return g_.make(Op::kNoop, ir::DType::kVoid, NodeVec{});
  const Node* target = address(run, src[0]->src(0), src[0]->src(1));
  const Node* vector = g_.make(Op::kStack, src[1]->dtype, v);
  return g_.make(Op::kStore, ir::DType::kVoid, {target, vector});
}

const Node* Coalescer::run(const Node* root) {
  for (const Node* n : ir::toposort(root)) {
    if (is_candidate(n)) collect(n);
  }
  for (const auto& [key, group] : groups_) cut(group);
  if (g_.failed() || runs_.empty()) return root;
  values_.resize(runs_.size());
  seen_.resize(runs_.size(), 0);
  return map_graph(g_, root, [&](const Node* n, NodeVec& src) -> const Node* {
    if (n->op == Op::kLoad && places_.contains(n)) return vector_load(n, src);
    if (n->op == Op::kStore && places_.contains(n)) return vector_store(n, src);
    if (n->op != Op::kGroup) return rebuilt(g_, n, src);
    std::erase_if(src, [](const Node* s) { return s->op == Op::kNoop && s->nsrc == 0; });
    return group(g_, src);
  });
}

}  // namespace

const Node* memory_coalescing(Graph& g, const Node* root, const CodegenOptions& o) {
  return Coalescer(g, o).run(root);
}

}  // namespace modeld::codegen
