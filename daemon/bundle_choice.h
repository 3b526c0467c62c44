// Which file a configured bundle path stands for. A path may be a folder with a.bundle, b.bundle
// and a file `active` holding "a" or "b" (a when it is missing): an update writes the other one and
// replaces `active`; when the active one fails before it is warm, the other one is loaded and
// `active` rewritten. Threading: any.
#pragma once

#include <string>

#include "hal/base/status.h"

namespace modeld::daemon {

struct BundleChoice {
  std::string file;        // what to open
  char active = '\0';      // 'a' or 'b' when the path is a folder
  bool has_other = false;  // the other file exists
};

Result<BundleChoice> choose_bundle(const std::string& path);
// The same with another one active than the file says.
BundleChoice choose_other(const std::string& path, char active);
// Makes the other one active (atomic replace of the file `active`).
Status switch_active(const std::string& path, char to);

}  // namespace modeld::daemon
