// Runs a child program to its end: argv, stdin text, captured output, time limit; no shell.
// This is not for long-lived workers (daemon/ owns those): the call returns when the child has been
// reaped. Contract: the child leads its own process group; past the time limit the whole group gets
// SIGKILL and the call returns kTimeout. It also dies with the calling thread's process and leaves
// no core file. An exit code other than 0 is not an error of this call.
// Threading: any thread; calls may overlap. Blocks at most timeout_ms plus reaping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hal/base/status.h"

namespace modeld {

struct ProcSpec {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH when it has no '/'
  std::string stdin_text;
  int64_t timeout_ms = 60'000;
  size_t output_limit_bytes = size_t{64} << 20;  // per stream; more is kInvalid and kills the group
  std::string working_dir;                       // empty: the caller's
  uint64_t memory_limit_bytes = 0;               // RLIMIT_AS, 0: none
};

struct ProcResult {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  std::string out, err;
  bool succeeded() const { return exit_code == 0; }
};

// kNotFound when the program does not exist, kTimeout, kIo.
Result<ProcResult> run_process(const ProcSpec& spec);

}  // namespace modeld
