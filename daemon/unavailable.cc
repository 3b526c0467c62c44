#include "daemon/unavailable.h"

#include "hal/base/env.h"

#include "daemon/daemon.h"

namespace modeld::daemon {
namespace {

using ipc::Reason;

struct Why {
  Reason reason;
  std::string text;
};

std::string how_it_ended(const ServiceEnd& end) {
  if (end.exit_code == "exited") return "modeld ended with exit code " + end.exit_status;
  if (!end.exit_code.empty()) return "modeld was ended by signal " + end.exit_status;
  return "modeld does not run";
}

Why why(const ServiceEnd& end, const Result<Config>& config) {
  if (!config.ok()) return {Reason::kConfig, config.error().what};
  const std::string ended = how_it_ended(end);
  if (end.exit_code == "exited" && end.exit_status == std::to_string(kExitConfig)) {
    // The configuration can be read, so it was the other thing that this code stands for.
    return {Reason::kPrivilege, ended + ": a right it must not have, see its log"};
  }
  if (end.result == "watchdog")
    return {Reason::kTimeout, "modeld stood still and was ended by the watchdog"};
  if (end.result == "timeout") return {Reason::kLoadFailed, "modeld was not ready in time"};
  if (end.result == "start-limit-hit")
    return {Reason::kLoadFailed, ended + ", too often to be started again"};
  if (end.result == "oom-kill") return {Reason::kLoadFailed, "modeld was ended: out of memory"};
  return {Reason::kLoadFailed, end.result.empty() ? ended : ended + " (" + end.result + ")"};
}

}  // namespace

ServiceEnd service_end_of_environment() {
  return {env_text("MONITOR_SERVICE_RESULT"), env_text("MONITOR_EXIT_CODE"),
          env_text("MONITOR_EXIT_STATUS")};
}

std::vector<ipc::ModelStatus> unavailable_models(const ServiceEnd& end,
                                                 const Result<Config>& config,
                                                 int64_t now) {
  std::vector<ModelConfig> models;
  if (config.ok())
    models = config->models;
  else
    for (const char* name : {"road", "cabin"}) models.emplace_back().name = name;
  const Why because = why(end, config);
  std::vector<ipc::ModelStatus> out;
  for (const ModelConfig& m : models) {
    ipc::ModelStatus s;
    s.name = m.name;
    s.state = ipc::ModelState::kUnavailable;
    s.reason = because.reason;
    s.text = because.text;
    s.since_ns = now;
    s.bundle_path = m.bundle;
    s.device = config.ok() ? m.device : "";
    s.unavailable_entries = 1;
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace modeld::daemon
