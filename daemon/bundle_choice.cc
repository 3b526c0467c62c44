#include "daemon/bundle_choice.h"

#include <sys/stat.h>

#include "hal/base/fs.h"
#include "hal/base/text.h"

namespace modeld::daemon {
namespace {

std::string bundle_file(const std::string& dir, char which) {
  return join_path(dir, std::string(1, which) + ".bundle");
}

}  // namespace

Result<BundleChoice> choose_bundle(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) return BundleChoice{path, '\0', false};
  char active = 'a';
  const std::string pointer = join_path(path, "active");
  if (file_exists(pointer)) {
    ASSIGN_OR_RETURN(const std::string text, read_text(pointer, 16));
    const std::string_view word = trim(text);
    if (word != "a" && word != "b")
      return fail(Errc::kInvalid,
                  pointer + ": must hold a or b, holds \"" + std::string(word) + "\"");
    active = word[0];
  }
  return choose_other(path, active);
}

BundleChoice choose_other(const std::string& path, char active) {
  return {bundle_file(path, active), active,
          file_exists(bundle_file(path, active == 'a' ? 'b' : 'a'))};
}

Status switch_active(const std::string& path, char to) {
  return write_text_atomic(join_path(path, "active"), std::string(1, to) + "\n");
}

}  // namespace modeld::daemon
