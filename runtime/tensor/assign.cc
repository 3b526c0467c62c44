#include "runtime/tensor/assign.h"

#include "runtime/ir/sharding.h"
#include "runtime/tensor/internal.h"

namespace modeld::tensor {

namespace {

// Right-aligned: every axis of x is dst's or 1.
bool fits(const Dims& x, const Dims& dst) {
  if (x.size() > dst.size()) return false;
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t n = x[x.size() - 1 - i];
    if (n != 1 && n != dst[dst.size() - 1 - i]) return false;
  }
  return true;
}

}  // namespace

Result<Tensor> assign_value(const Tensor& dst, const Tensor& x) {
  using ir::Fault;
  ir::Graph& g = dst.graph();
  const bool same_shape = ir::Shape(ir::shape(g, dst.node())) == ir::Shape(ir::shape(g, x.node()));
  const Dims want = ir::max_shape(g, dst.node());
  const Dims have = ir::max_shape(g, x.node());
  RETURN_IF_ERROR(g.status());
  if (!same_shape && !fits(have, want)) {
    return fail(Fault::kBadShape, strf("assign: %s does not broadcast to the target's %s",
                                       dims_text(have).c_str(), dims_text(want).c_str()));
  }
  const bool adapts = ir::is_weak(x.dtype()) && promoted(dst.dtype(), x.dtype()) == dst.dtype();
  if (x.dtype() != dst.dtype() && !adapts) {
    return fail(Fault::kAssignDtype, strf("assign: dtype %s to a target of %s, cast it first",
                                          ir::dtype_name(x.dtype()), ir::dtype_name(dst.dtype())));
  }
  const std::string& from = ir::device(g, x.node());
  const std::string& to = ir::device(g, dst.node());
  if (!from.empty() && !to.empty() && from != to) {
    return fail(Fault::kAssignDevice,
                strf("assign: value on device %s, target on %s", from.c_str(), to.c_str()));
  }
  const Tensor cast = x.cast(dst.dtype());
  const Tensor value = same_shape ? cast : cast.expand(want);
  const ir::Sharding& parts = ir::sharding(g, value.node());
  if (!parts.empty() && parts != ir::sharding(g, dst.node())) {
    return fail(Fault::kAssignAxis,
                strf("assign: value sharded along axis %lld, the target %s is not",
                     static_cast<long long>(parts.axes[0]), ir::tensor_name(dst.node()).c_str()));
  }
  return value;
}

}  // namespace modeld::tensor
