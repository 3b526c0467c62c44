// Every input and output of a run that failed, from the worker to the supervisor: written into a
// sealed memory file that both have, in the form a flight record holds them (ipc/flight.h).
// Contract: only after a failure, only between post and answer, and only when the job allows it
// (the supervisor reads the file at its leisure). Threading: the worker's main thread.
#pragma once

#include <cstdint>

#include "hal/base/clock.h"
#include "hal/base/status.h"

#include "models/model.h"

namespace modeld::daemon {

// Of the memory file; its pages exist only once something is written.
inline constexpr uint64_t kCaptureLimitBytes = uint64_t{128} << 20;

// Bytes written.
Result<uint64_t> write_capture(models::Model& model, int fd, Deadline deadline);

}  // namespace modeld::daemon
