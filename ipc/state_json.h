// A state message as JSON: the reply to {"command":"status"} and what `modelctl status --json`
// prints. Threading: pure function.
#pragma once

#include "hal/base/json.h"

#include "ipc/message_types.h"

namespace modeld::ipc {

// {"ok":true,"version":..,"pid":..,"uptime_s":..,"camera":{..},"models":[{"name":..,"state":..,...}]};
// times are ages before `now` (CLOCK_MONOTONIC ns), so that the text means something on its own.
Json state_to_json(const StateMessage& message, int64_t now);

}  // namespace modeld::ipc
