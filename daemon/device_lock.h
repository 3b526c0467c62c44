// One worker of a unit on a device behind a driver, also across daemons: a worker that does not end
// (a driver call that cannot be killed) keeps its device locked after its supervisor is gone, and
// whoever comes next says so instead of opening a wedged device. Contract: the lock is a flock on
// STEM.DEVICE.lock, held by the descriptor; a worker inherits it and holds it for life.
// Threading: any.
#pragma once

#include <string>

#include "hal/base/status.h"
#include "hal/base/unique_fd.h"

namespace modeld::daemon {

// kBusy names the process that holds it.
Result<UniqueFd> lock_device(const std::string& stem, const std::string& device_uri);
// Says in the file who holds it.
void name_holder(const UniqueFd& lock, int pid);

}  // namespace modeld::daemon
