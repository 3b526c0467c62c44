// The subcommands of modelc, one file each (cmd_NAME.cc): each adds itself to the command line and
// returns what it does when chosen. Contract: --help describes each; errors are one line.
// Threading: one thread, before and during main.
#pragma once

#include <span>

#include "models/tools/cli.h"

namespace modeld::tools {

Command add_build(CLI::App& app);
Command add_info(CLI::App& app);
Command add_run(CLI::App& app);
Command add_check(CLI::App& app);
Command add_prepare(CLI::App& app);
Command add_reference(CLI::App& app);
Command add_keygen(CLI::App& app);
Command add_sign(CLI::App& app);
Command add_verify(CLI::App& app);

struct CommandEntry {
  const char* name;
  const char* help;     // one line
  const char* example;  // a whole command line
  Command (*add)(CLI::App& subcommand);
};
// In the order of --help.
std::span<const CommandEntry> command_table();

// argv to exit code; main() is only this.
int modelc_main(int argc, const char* const* argv);

}  // namespace modeld::tools
