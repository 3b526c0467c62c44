// What an assignment stores: the checks every way to assign shares (tensor.h assign(), the
// session). Contract: errors are returned, never latched: kBadShape, kAssignDtype, kAssignDevice,
// kAssignAxis. Threading: as the Graph.
#pragma once

#include "hal/base/status.h"

#include "runtime/tensor/tensor.h"

namespace modeld::tensor {

// x in dst's dims and dtype: broadcast, and weak values adapt; nothing else is converted.
Result<Tensor> assign_value(const Tensor& dst, const Tensor& x);

}  // namespace modeld::tensor
