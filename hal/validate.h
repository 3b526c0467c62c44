// A device wrapper that checks every command before it is submitted: addresses lie in live memory
// of this device, sizes fit, signals do not go backwards. Switched on by MODELD_VALIDATE=1 in
// open_device. This is not for production: each submit takes a lock and looks at every command.
// Contract: a finding is kInvalid from submit, naming recording, command and what was wrong;
// nothing was submitted then. Kernel arguments are checked when their ArgKind is kBuffer, so
// scalars must be marked kScalar. Memory that does not come from this device's allocator (import it
// with BufferDesc.external) is a finding.
// Threading: as hal/device.h.
#pragma once

#include <memory>

#include "hal/device.h"

namespace modeld::hal {

std::unique_ptr<Device> validate_device(std::unique_ptr<Device> inner);

}  // namespace modeld::hal
