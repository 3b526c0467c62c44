// Tensors on several devices: nodes only, as everything in this folder. A tensor on a tuple of
// devices is replicated, or sharded: cut into equal parts along axes, one part per device. All
// other methods of Tensor work on such tensors as on any other; where elements would have to cross
// between devices the scheduler sends them (runtime/schedule/multi.h) or refuses. Errors latch in
// the Graph: kUnevenShards naming the tensor when an axis does not divide. Threading: as the Graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/ir/op.h"
#include "runtime/tensor/tensor.h"

namespace modeld::tensor {

using Devices = std::vector<std::string>;  // distinct names; the order is that of the parts

// One part per device along `axis` (negative counts from the back). Only the part travels.
Tensor shard(const Tensor& x, const Devices& devices, int64_t axis);
// The whole on every device.
Tensor replicate(const Tensor& x, const Devices& devices);
// The whole on one device.
Tensor to(const Tensor& x, const std::string& device);

// Several axes: axis[i] is cut in parts[i]; the product is the number of devices, which are
// numbered with the last axis running fastest. Axes increase.
struct Mesh {
  std::vector<int64_t> axes;
  std::vector<int64_t> parts;
};
Tensor shard(const Tensor& x, const Devices& devices, const Mesh& mesh);

// What device i computed, folded over i: `x` is replicated in name only, a different value on each
// device (a partial sum). op: kAdd, kMul or kMax.
Tensor all_reduce(const Tensor& x, ir::Op op, const Devices& devices);

}  // namespace modeld::tensor
