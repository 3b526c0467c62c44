// split_ranges. Needs index math over whole ranges. Gives: a range used as r % c, with c dividing
// its size, as outer * c + inner, which exposes the inner axis to vectors and unrolling. Ids are
// dealt out again so that the axis order stays. WARP and DEVICE ranges are fixed by hardware.
#include <algorithm>
#include <unordered_map>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

constexpr int kMaxRounds = 8;  // a range splits at most once per round

std::unordered_map<const Node*, int64_t> find_splits(Graph& g, const Node* root) {
  std::unordered_map<const Node*, int64_t> out;
  for (const Node* n : ir::toposort(root)) {
    if (n->op != Op::kFloorMod || n->src(0)->op != Op::kRange) continue;
    const Node* r = n->src(0);
    const auto c = ir::int_value(n->src(1));
    const ir::AxisType type = r->as<ir::RangeArg>().type;
    if (type == ir::AxisType::kWarp || type == ir::AxisType::kDevice || !c || *c < 2) continue;
    if (!ir::is_const(r->src(0)) || range_size(g, r) % *c != 0) continue;
    out.emplace(r, *c);
  }
  return out;
}

}  // namespace

const Node* split_ranges(Graph& g, const Node* root, const CodegenOptions&) {
  for (int round = 0; round < kMaxRounds; ++round) {
    const auto splits = find_splits(g, root);
    if (splits.empty()) return root;
    NodeVec ranges = all_ranges(root);
    std::stable_sort(ranges.begin(), ranges.end(), [](const Node* a, const Node* b) {
      return a->as<ir::RangeArg>().id < b->as<ir::RangeArg>().id;
    });
    ir::NodeMap map;
    int64_t id = 0;
    for (const Node* r : ranges) {
      const ir::AxisType type = r->as<ir::RangeArg>().type;
      const auto it = splits.find(r);
      if (it == splits.end()) {
        map[r] = g.make(Op::kRange, r->dtype, r->src(), ir::RangeArg{id++, type});
        continue;
      }
      const int64_t c = it->second;
      const Node* outer = ir::range(g, range_size(g, r) / c, id++, type);
      map[r] = ir::add(g, ir::mul_const(g, outer, c), ir::range(g, c, id++, type));
    }
    root = flatten_ranges(g, ir::rewrite(g, replace_ranges(g, root, map), ir::symbolic_rules()));
    if (g.failed()) return root;
  }
  return root;
}

const Node* initial_symbolic(Graph& g, const Node* root, const CodegenOptions&) {
  return flatten_ranges(g, ir::rewrite(g, root, ir::sym_rules()));
}

}  // namespace modeld::codegen
