// The null device: real memory, but every run is answered as done without executing anything.
// It measures our own overhead and serves golden outputs: DeviceConfig.on_null_run is called in
// submit with the recording's label and inputs, and may write what the caller wants the run to have
// produced. Contract: signal commands of a recording are carried out (waiters must not hang);
// launches, copies, writes, waits are not. Images of every target are accepted. Reported as
// simulated.
// Threading: as hal/device.h; the hook runs on the submitting thread.
#pragma once

#include <memory>

#include "hal/base/status.h"
#include "hal/device.h"

namespace modeld::hal {

Result<std::unique_ptr<Device>> open_null_device(const DeviceConfig& config);

}  // namespace modeld::hal
