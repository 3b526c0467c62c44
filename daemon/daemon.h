// The daemon as one object: everything main() builds, in order, and the loop until a signal ends
// it. Contract: run() returns the exit code. It never ends because of a bundle. Threading: one
// thread.
#pragma once

#include <memory>
#include <string>

#include "hal/base/status.h"

#include "daemon/config.h"

namespace modeld::daemon {

inline constexpr int kExitConfig = 78;

class Daemon {
 public:
  // Takes runtime_dir's lock; kBusy names the pid that has it.
  static Result<std::unique_ptr<Daemon>> create(Config config);
  ~Daemon();
  int run();

 private:
  struct Parts;
  explicit Daemon(std::unique_ptr<Parts> parts);
  void reload();
  int leave_for_privilege(const std::string& text);
  std::unique_ptr<Parts> parts_;
};

}  // namespace modeld::daemon
