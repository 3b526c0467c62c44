#include "runtime/tensor/shard.h"

#include <algorithm>

#include "runtime/ir/sharding.h"
#include "runtime/tensor/internal.h"

namespace modeld::tensor {

using ir::Graph;
using ir::Node;
using ir::Op;

namespace {

// Latches what is wrong with a list of devices.
bool good_devices(Graph& g, const Devices& devices, const char* what) {
  Devices sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  const bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  const bool odd_name = std::any_of(devices.begin(), devices.end(), [](const std::string& d) {
    return d.empty() || d.find(',') != std::string::npos;
  });
  if (!devices.empty() && !twice && !odd_name) return true;
  g.fail(ir::Fault::kDeviceTuple, strf("%s: devices \"%s\" are not distinct names", what,
                                       ir::join_devices(devices).c_str()));
  return false;
}

Tensor copy(const Tensor& x, const std::string& device) {
  Graph& g = x.graph();
  if (ir::is_weak(x.dtype())) {
    g.fail(ir::Fault::kWeakStorage,
           strf("copy of %s: a value of weak type %s has no storage",
                ir::tensor_name(x.node()).c_str(), ir::dtype_name(x.dtype())));
    return placeholder(g);
  }
  return {g, g.make(Op::kCopy, x.dtype(), {x.node()}, device)};
}

// Which part along axis i of the mesh a device holds: its number's digit.
const Node* coordinate(Graph& g, const Node* device, const Mesh& mesh, size_t i) {
  int64_t stride = 1;
  for (size_t k = i + 1; k < mesh.parts.size(); k++) stride *= mesh.parts[k];
  const Node* digit = device;
  if (stride != 1) digit = ir::alu(g, Op::kFloorDiv, {digit, ir::const_int(g, stride)});
  if (i > 0) digit = ir::alu(g, Op::kFloorMod, {digit, ir::const_int(g, mesh.parts[i])});
  return digit;
}

bool good_mesh(const Tensor& x, const Devices& devices, const Mesh& mesh) {
  Graph& g = x.graph();
  const bool shaped = !mesh.axes.empty() && mesh.axes.size() == mesh.parts.size() &&
                      std::is_sorted(mesh.axes.begin(), mesh.axes.end(), std::less_equal<>()) &&
                      product(mesh.parts) == static_cast<int64_t>(devices.size());
  if (!shaped ||
      std::any_of(mesh.parts.begin(), mesh.parts.end(), [](int64_t p) { return p < 2; })) {
    bad(g, strf("shard: %zu axes in %s parts do not cover %zu devices", mesh.axes.size(),
                dims_text(mesh.parts).c_str(), devices.size()));
    return false;
  }
  const Dims d = x.dims();
  for (size_t i = 0; i < mesh.axes.size(); i++) {
    const int64_t dim = d[static_cast<size_t>(mesh.axes[i])];
    if (dim % mesh.parts[i] == 0) continue;
    g.fail(ir::Fault::kUnevenShards,
           strf("shard: multi axis uneven: axis %lld of %s, %s, does not divide over %lld devices",
                static_cast<long long>(mesh.axes[i]), ir::tensor_name(x.node()).c_str(),
                dims_text(d).c_str(), static_cast<long long>(mesh.parts[i])));
    return false;
  }
  return true;
}

// Parts on the very devices have to come together before they can be spread otherwise; a COPY to
// where a value is does nothing.
Tensor together(const Tensor& x, const Devices& devices) {
  Graph& g = x.graph();
  const bool here = ir::device(g, x.node()) == ir::join_devices(devices);
  return here && !ir::sharding(g, x.node()).empty() ? copy(x, devices[0]) : x;
}

}  // namespace

Tensor replicate(const Tensor& x, const Devices& devices) {
  if (broken(x) || !good_devices(x.graph(), devices, "replicate")) return placeholder(x.graph());
  return copy(together(x, devices), ir::join_devices(devices));
}

Tensor to(const Tensor& x, const std::string& device) {
  if (broken(x) || !good_devices(x.graph(), {device}, "to")) return placeholder(x.graph());
  return copy(x, device);
}

Tensor shard(const Tensor& x, const Devices& devices, int64_t axis) {
  if (broken(x) || !good_devices(x.graph(), devices, "shard")) return placeholder(x.graph());
  if (devices.size() == 1) return to(x, devices[0]);
  axis = wrap_axis(x.graph(), axis, x.rank(), "shard");
  return shard(x, devices, Mesh{{axis}, {static_cast<int64_t>(devices.size())}});
}

Tensor shard(const Tensor& x, const Devices& devices, const Mesh& mesh) {
  if (broken(x)) return placeholder(x.graph());
  Graph& g = x.graph();
  if (!good_devices(g, devices, "shard")) return placeholder(g);
  for (const int64_t a : mesh.axes) wrap_axis(g, a, x.rank(), "shard");
  if (g.failed() || !good_mesh(x, devices, mesh)) return placeholder(g);
  const Node* device = ir::device_range(g, static_cast<int64_t>(devices.size()));
  Dims sizes = x.dims();
  ir::NodeVec starts(sizes.size(), ir::const_int(g, 0));
  ir::Sharding s;
  for (size_t i = 0; i < mesh.axes.size(); i++) {
    const auto a = static_cast<size_t>(mesh.axes[i]);
    sizes[a] /= mesh.parts[i];
    s.axes.push_back(mesh.axes[i]);
    s.coords.push_back(coordinate(g, device, mesh, i));
    starts[a] = ir::mul_const(g, s.coords[i], sizes[a]);
  }
  const bool here = ir::device(g, x.node()) == ir::join_devices(devices);
  if (here && ir::sharding(g, x.node()) == s) return x;
  const Tensor whole = replicate(x, devices);
  if (g.failed()) return placeholder(g);
  const Node* start = g.make(Op::kStack, DType::kWeakInt, starts);
  const Node* part =
      g.make(Op::kShrink, x.dtype(), {whole.node(), start, ir::shape_node(g, sizes)});
  return {g, ir::unshard(g, part, s)};
}

Tensor all_reduce(const Tensor& x, ir::Op op, const Devices& devices) {
  if (broken(x) || !good_devices(x.graph(), devices, "all_reduce")) return placeholder(x.graph());
  Graph& g = x.graph();
  if (!ir::kReduceOps.has(op)) return bad(g, strf("all_reduce: no reduce op: %s", ir::op_name(op)));
  return {g, g.make(Op::kAllReduce, x.dtype(), {x.node()},
                    ir::AllReduceArg{op, ir::join_devices(devices)})};
}

}  // namespace modeld::tensor
