// Who may speak in a runtime directory: one process, the one that holds modeld.lock.
// Contract: kBusy names the pid that has it; the lock lives as long as the descriptor.
// Threading: any.
#pragma once

#include <string>

#include "hal/base/status.h"
#include "hal/base/unique_fd.h"

namespace modeld::daemon {

// `program` begins the line of an error.
Result<UniqueFd> lock_instance(const std::string& dir, const std::string& program);

}  // namespace modeld::daemon
