// Where the sockets live: one rule for every program.
// Threading: any (reads the environment).
#pragma once

#include <string>

#include "hal/base/status.h"

namespace modeld::ipc {

// First that applies: `flag` (--dir), MODELD_RUNTIME_DIR, `configured` (config file), /run/modeld
// if it exists, $XDG_RUNTIME_DIR/modeld, /tmp/modeld-$UID. Nothing is created.
std::string runtime_dir(const std::string& flag = "", const std::string& configured = "");
// The same for --help, of programs that read no configuration.
inline constexpr const char* kRuntimeDirHelp =
    "runtime directory (default: MODELD_RUNTIME_DIR, /run/modeld if it exists, "
    "$XDG_RUNTIME_DIR/modeld, /tmp/modeld-UID)";

// Makes the directory (0750) if it is missing; refuses one that is not a directory.
Status make_runtime_dir(const std::string& dir);

// A socket file just bound in `dir`: mode 0660 and the group of the directory.
Status share_socket(const std::string& dir, const std::string& path);

}  // namespace modeld::ipc
