// The subcommands of modelctl. Each returns the exit code and prints its own one-line error to
// stderr. Threading: main thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hal/base/status.h"

namespace modeld::ipc {

struct CtlOptions {
  std::string dir;
  bool json = false;
  std::string file;                 // trace, record, watch --record
  std::vector<std::string> models;  // watch, record, gate: the models that count; none: both
  std::optional<double> seconds;    // watch, record, gate
  double wait_s = 30;               // watch, record: for the first valid messages
  bool summary = false;             // watch: the final JSON object after the table
  bool require = false;             // watch: exit 1 unless the run was good
};

int cmd_status(const CtlOptions& options);
int cmd_metrics(const CtlOptions& options);
int cmd_trace(const CtlOptions& options);
int cmd_watch(const CtlOptions& options);
int cmd_record(const CtlOptions& options);
int cmd_gate(const CtlOptions& options);

// "modelctl: text" on stderr; 1.
int ctl_fail(const Error& error);

// argv to exit code; main() is only this.
int modelctl_main(int argc, const char* const* argv);

}  // namespace modeld::ipc
