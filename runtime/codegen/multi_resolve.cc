// multi_resolve. Needs nothing. Gives: no in-kernel UNSHARD: a tile that belongs to one thread of a
// hand-written kernel, indexed globally, becomes that thread's own tile, indexed locally. An index
// that may leave the tile is an error: another thread's registers cannot be read.
#include <algorithm>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

bool same_sharding(const Node* a, const Node* b) {
  return *a->arg == *b->arg &&
         std::equal(a->src().begin() + 1, a->src().end(), b->src().begin() + 1, b->src().end());
}

// Elementwise work on tiles cut the same way is work on the tiles.
const Node* elementwise_of_tiles(Graph& g, const Node* n) {
  const Node* tile = nullptr;
  NodeVec src;
  for (const Node* s : n->src()) {
    if (s->op == Op::kUnshard) {
      if (tile != nullptr && !same_sharding(tile, s)) {
        g.fail(Errc::kInvalid,
               strf("multi_resolve: %s of tiles that are cut differently", ir::op_name(n->op)));
        return nullptr;
      }
      tile = s;
      src.push_back(s->src(0));
      continue;
    }
    if (!ir::shape(g, s).empty()) return nullptr;  // only scalars belong to every tile
    src.push_back(s);
  }
  if (tile == nullptr) return nullptr;
  NodeVec wrapped(tile->src().begin(), tile->src().end());
  wrapped[0] = g.with_src(n, src);
  return g.make(Op::kUnshard, n->dtype, wrapped, *tile->arg);
}

// Global coordinate minus the tile's start; an error unless it lies inside the tile for all values
// of the loops.
const Node* local_coordinate(Graph& g, const Node* at, const Node* owner, int64_t tile) {
  const Node* start = ir::mul_const(g, owner, tile);
  const Node* local = ir::simplify(
      g, ir::add(g, ir::simplify(g, at), ir::mul_const(g, ir::simplify(g, start), -1)));
  const ir::Bounds b = ir::bounds(g, local);
  if (b.vmin >= 0 && b.vmax < tile) return local;
  g.fail(
      Errc::kInvalid,
      strf("multi_resolve: index may lie outside of its own tile: local coordinate %lld..%lld of "
           "%lld",
           static_cast<long long>(b.vmin), static_cast<long long>(b.vmax),
           static_cast<long long>(tile)));
  return nullptr;
}

const Node* index_of_tile(Graph& g, const Node* n) {
  const Node* tile = n->src(0);
  if (tile->op != Op::kUnshard) return nullptr;
  const ir::Ints& axes = tile->as<ir::Ints>();
  const std::vector<int64_t> size = ir::max_shape(g, tile->src(0));
  NodeVec src(n->src().begin(), n->src().end());
  src[0] = tile->src(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    if (axis + 1 >= src.size()) {
      g.fail(Errc::kInvalid, "multi_resolve: a sharded axis is not indexed");
      return nullptr;
    }
    src[axis + 1] = local_coordinate(g, src[axis + 1], tile->src(i + 1), size[axis]);
    if (g.failed()) return nullptr;
  }
  return g.with_src(n, src);
}

}  // namespace

const Node* multi_resolve(Graph& g, const Node* root, const CodegenOptions&) {
  ir::RuleSet rules;
  rules.on(ir::kElementwiseOps, "elementwise of tiles", elementwise_of_tiles, {Op::kUnshard});
  rules.on({Op::kIndex}, "index of tile", index_of_tile, {Op::kUnshard});
  const Node* out = ir::rewrite(g, root, rules);
  if (g.failed() || out == root) return root;
  for (const Node* n : ir::toposort(out)) {
    if (n->op == Op::kUnshard) {
      g.fail(Errc::kInvalid, "multi_resolve: a tile is used as a whole, not by index");
      return root;
    }
  }
  return out;
}

}  // namespace modeld::codegen
