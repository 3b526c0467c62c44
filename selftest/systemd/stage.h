// A machine of its own for the service: mounts, processes, users and a service manager that nobody
// else sees. The files that install.sh puts in place are taken as they are; `systemd --user` (as
// root, in a pid and mount namespace) runs them, so users, limits, mounts and filters of the units
// are the real ones. Not there: control groups (device lists, memory limits) and packet filters.
// Contract: construct it only inside `unshare -mpf --mount-proc`; the machine's own /run, /etc,
// /var/lib, /opt and /dev/shm are covered first. Every wait has a deadline. Threading: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "selftest/e2e/harness.h"

namespace modeld::systemd_check {

inline constexpr const char* kDaemon = "modeld.service";
inline constexpr const char* kSelftest = "modeld-selftest.service";
inline constexpr const char* kUnavailable = "modeld-unavailable.service";
inline constexpr const char* kUnitDir = "/run/stage/units";
inline constexpr const char* kConfigPath = "/etc/modeld/modeld.toml";
inline constexpr const char* kRuntimeDir = "/run/modeld";

// A text of an installed unit that a deliberate defect replaces.
struct Edit {
  const char* unit;
  const char* from;
  const char* to;
};

class Stage {
 public:
  // `slack` multiplies every upper bound.
  static Result<std::unique_ptr<Stage>> create(int64_t slack);
  ~Stage();

  // As after an installation: units as they are, nothing runs, nothing failed, good configuration.
  Status reset();
  Status apply(const Edit& edit);
  // The daemon's program, from the build directory.
  Status replace_daemon(const std::string& program);
  // More lines of a unit, until reset().
  Status drop_in(const std::string& unit, const std::string& lines);
  Status write_config(const std::string& text);
  std::string good_config() const;

  // systemctl; an error when it fails or takes longer than `timeout_ms`.
  Status systemctl(std::vector<std::string> args, int64_t timeout_ms = 60'000);
  Status start_daemon() { return systemctl({"start", kDaemon}); }
  std::string show(const std::string& unit, const std::string& property);
  int64_t number(const std::string& unit, const std::string& property);
  int daemon_pid() { return static_cast<int>(number(kDaemon, "MainPID")); }
  // One state message's entry for the model, as `modelctl status --json` gives it now: "" if nobody
  // answers.
  std::string status_text();
  // "LOADING", "UNAVAILABLE(config)", ...; "" if nobody answers.
  std::string standing(const std::string& model);

  // `what` for the error: "modeld.service failed".
  Status wait_for(const std::string& what, const std::function<bool()>& holds, int64_t timeout_ms);
  int64_t slack() const { return slack_; }
  e2e::Tap& tap() { return *tap_; }
  // A tap that has seen nothing yet.
  void fresh_tap();
  // modelcam's frames and vehicle inputs, until reset().
  void start_camera();
  // What the service manager logged, its last lines.
  std::string log_tail() const;

 private:
  explicit Stage(int64_t slack) : slack_(slack) {}
  Status cover();
  Status install();
  Status make_bundles();
  Status start_manager();
  Status restore_units();

  int64_t slack_;
  std::map<std::string, std::string> units_;  // name -> text as installed
  std::unique_ptr<e2e::Child> manager_;
  std::unique_ptr<e2e::Child> camera_;
  std::unique_ptr<e2e::Tap> tap_;
};

// Runs to its end; an error with its output when it fails.
Status run_tool(const std::vector<std::string>& argv, int64_t timeout_ms = 60'000);
// The same, with what it printed.
Result<std::string> tool_output(const std::vector<std::string>& argv, int64_t timeout_ms = 60'000);

}  // namespace modeld::systemd_check
