// What is said for a daemon that is down for good: every model it would serve, UNAVAILABLE, and
// why. systemd tells how the service ended (MONITOR_* variables of an OnFailure= unit, systemd.exec
// (5)); the configuration tells which models are meant, or is itself the reason. This is not a
// state machine: nothing here ever becomes available again, a start of modeld ends it. Threading:
// pure functions.
#pragma once

#include <string>
#include <vector>

#include "hal/base/status.h"

#include "ipc/message_types.h"

#include "daemon/config.h"

namespace modeld::daemon {

// How the service ended, in systemd's words; empty where it did not say.
struct ServiceEnd {
  std::string result;     // MONITOR_SERVICE_RESULT: "exit-code", "watchdog", "start-limit-hit", ...
  std::string exit_code;  // MONITOR_EXIT_CODE: "exited", "killed", "dumped"
  std::string exit_status;  // MONITOR_EXIT_STATUS: "78", "SEGV"
};
ServiceEnd service_end_of_environment();

// One entry per configured model, road and cabin when the configuration cannot be read; all in
// kUnavailable since `now` (CLOCK_MONOTONIC ns), none with an empty text.
std::vector<ipc::ModelStatus> unavailable_models(const ServiceEnd& end,
                                                 const Result<Config>& config,
                                                 int64_t now);

}  // namespace modeld::daemon
