// group_reduces. Needs axes with their final types, UPCAST axes still ranges. Gives: no REDUCE over
// a GROUP_REDUCE axis: every work item reduces its share, the shares meet in a STAGE in local
// memory, and a second REDUCE over loops of its own folds them. Every item of the group computes
// that fold; add_gpudims lets one of them store it. Before the expander: a lane is still an axis
// here, and an ordinary coordinate of the STAGE.
#include <algorithm>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::AxisType;
using ir::NodeVec;
using ir::Op;

AxisType axis_type(const Node* r) {
  return r->as<ir::RangeArg>().type;
}

bool is_group(const Node* r) {
  return r->op == Op::kRange && axis_type(r) == AxisType::kGroupReduce;
}

class GroupReduces {
 public:
  explicit GroupReduces(Graph& g) : g_(g) {}

  const Node* run(const Node* root) {
    for (const Node* r : all_ranges(root)) {
      const AxisType t = axis_type(r);
      if (t == AxisType::kWarp || t == AxisType::kLocal || is_group(r)) items_.push_back(r);
      if (is_group(r)) {
        // Two reduces over one axis fold in one loop: one second range per axis.
        folds_[r] = ir::range(g_, range_size(g_, r), g_.fresh(), AxisType::kReduce);
      }
    }
    if (folds_.empty()) return root;
    return map_graph(g_, root, [&](const Node* n, const NodeVec& src) -> const Node* {
      const Node* same = rebuilt(g_, n, src);
      return same->op == Op::kReduce ? split(same) : same;
    });
  }

 private:
  Graph& g_;
  NodeVec items_;      // axes of the group: every item has a place of its own in the STAGE
  ir::NodeMap folds_;  // GROUP_REDUCE range -> the loop that folds its shares

  const Node* split(const Node* n);
};

const Node* GroupReduces::split(const Node* n) {
  NodeVec own{n->src(0)};
  NodeVec shared;
  for (const Node* r : n->src().subspan(1)) (is_group(r) ? shared : own).push_back(r);
  if (shared.empty()) return n;
  const Node* share = own.size() == 1 ? own[0] : g_.with_src(n, own);
  NodeVec coordinates = items_;
  for (const Node* r : ir::ranges(g_, share)) {
    if (axis_type(r) == AxisType::kUpcast) coordinates.push_back(r);
  }
  NodeVec staged{share};
  staged.insert(staged.end(), coordinates.begin(), coordinates.end());
  const Node* stage =
      g_.make(Op::kStage, n->dtype, staged, ir::StageArg{ir::AddrSpace::kLocal, "", false});
  NodeVec place{stage};
  for (const Node* r : coordinates) {
    const bool folded = std::find(shared.begin(), shared.end(), r) != shared.end();
    place.push_back(folded ? folds_.at(r) : r);
  }
  NodeVec fold{g_.make(Op::kIndex, n->dtype, place)};
  for (const Node* r : shared) fold.push_back(folds_.at(r));
  return g_.with_src(n, fold);
}

}  // namespace

const Node* group_reduces(Graph& g, const Node* root, const CodegenOptions&) {
  return GroupReduces(g).run(root);
}

}  // namespace modeld::codegen
