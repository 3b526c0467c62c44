// images. Needs vector accesses and mathematical index math. Gives: buffers of which every access
// is one aligned 4-wide pixel, and which are only read or only written, as images: PARAM of shape
// (H, W, 4), accesses as INDEX(image, y, x). All other buffers stay plain. Node first in the hand-
// book; one walk here, because a buffer is decided as a whole.
#include <map>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/image_shape.h"
#include "runtime/codegen/passes.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {
namespace {

using ir::NodeVec;
using ir::Op;

// What has been seen of one buffer.
struct Candidate {
  std::optional<ImageShape> shape;
  bool loaded = false;
  bool stored = false;
};

std::optional<ImageShape> shape_of(const Node* param) {
  const auto& p = param->as<ir::ParamArg>();
  const auto size = ir::int_value(param->src(0));
  if (p.addrspace != ir::AddrSpace::kGlobal || p.is_volatile || !size) return std::nullopt;
  return image_shape(*size, param->dtype);
}

// One whole pixel: four elements from a multiple of four.
bool is_pixel(Graph& g, const Node* address) {
  if (address->op != Op::kShrink || address->src(0)->op != Op::kParam) return false;
  const Node* start = split_gate(address->src(1)).index;
  const auto v = ir::int_value(start);
  const bool aligned = v ? *v % 4 == 0 : ir::const_factor(g, start) % 4 == 0;
  return aligned && ir::is_int_const(address->src(2), 4);
}

std::map<const Node*, Candidate> find_images(Graph& g, const Node* root) {
  std::map<const Node*, Candidate> found;
  const NodeVec order = ir::toposort(root);
  for (const Node* n : order) {
    if (n->op == Op::kParam && n->as<ir::ParamArg>().addrspace == ir::AddrSpace::kGlobal) {
      found[n].shape = shape_of(n);
    }
  }
  for (const Node* n : order) {
    if (n->op == Op::kAfter && n->src(0)->op == Op::kParam) found[n->src(0)].shape.reset();
    if (n->op != Op::kLoad && n->op != Op::kStore) continue;
    const auto it = found.find(memory_root(n->src(0)));
    if (it == found.end()) continue;
    (n->op == Op::kLoad ? it->second.loaded : it->second.stored) = true;
    if (!is_pixel(g, n->src(0))) it->second.shape.reset();
  }
  std::erase_if(found, [](const auto& entry) {
    const Candidate& c = entry.second;
    return !c.shape || c.loaded == c.stored;
  });
  return found;
}

const Node* image_param(Graph& g, const Node* n, const ImageShape& s) {
  return g.make(Op::kParam, n->dtype,
                {ir::shape_node(g, std::vector<int64_t>{s.height, s.width, 4})}, *n->arg, n->tag);
}

const Node* coordinate(Graph& g, Op op, const Node* pixel, int64_t width, const Node* gate) {
  const Node* at = ir::alu(g, op, {pixel, ir::const_int(g, width)});
  const Node* value = ir::simplify(g, at);
  if (gate != nullptr) value = ir::simplify_given(g, value, gate);
  return join_gate(g, gate, value);
}

}  // namespace

const Node* images(Graph& g, const Node* root, const CodegenOptions& o) {
  if (!o.caps.image) return root;
  const std::map<const Node*, Candidate> found = find_images(g, root);
  if (found.empty()) return root;
  return map_graph(g, root, [&](const Node* n, const NodeVec& src) -> const Node* {
    if (n->op == Op::kParam) {
      const auto it = found.find(n);
      return it == found.end() ? rebuilt(g, n, src) : image_param(g, n, *it->second.shape);
    }
    const auto it = n->op == Op::kShrink ? found.find(n->src(0)) : found.end();
    if (it == found.end()) return rebuilt(g, n, src);
    const GatedIndex at = split_gate(src[1]);
    const Node* pixel = ir::alu(g, Op::kFloorDiv, {at.index, ir::const_int(g, 4)});
    const int64_t width = it->second.shape->width;
    return g.make(Op::kIndex, n->dtype,
                  {src[0], coordinate(g, Op::kFloorDiv, pixel, width, at.gate),
                   coordinate(g, Op::kFloorMod, pixel, width, at.gate)});
  });
}

}  // namespace modeld::codegen
