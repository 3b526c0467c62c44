// assert_all_same_devices: the check that no compute kernel of a LINEAR reads across devices.
// Contract: Fault::kMixedDevices "all buffers must be on the same device" naming call, arguments
// and their devices.
#pragma once

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

namespace modeld::schedule {

Status assert_all_same_devices(ir::Graph& g, const ir::Node* linear);

}  // namespace modeld::schedule
