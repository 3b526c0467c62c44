// Deliberate defects of the daemon's words to systemd: sd_notify of the real program, wrapped by
// the linker. The file kNotifyDefectFile names the one that is switched on.
#include <systemd/sd-daemon.h>

#include <cstring>
#include <string>

#include "hal/base/fs.h"
#include "hal/base/text.h"

#include "selftest/systemd/notify_defect.h"

extern "C" int __real_sd_notify(int unset_environment, const char* state);
extern "C" int __wrap_sd_notify(int unset_environment, const char* state);

namespace modeld::systemd_check {
namespace {

const std::string& defect() {
  static const std::string name{trim(read_text(kNotifyDefectFile, 64).value_or(""))};
  return name;
}

bool says(const char* state, const char* word) {
  return std::strncmp(state, word, std::strlen(word)) == 0;
}

int notify(int unset_environment, const char* state) {
  if (defect() == "ready-too-early" && says(state, "EXTEND_TIMEOUT_USEC"))
    state = "READY=1";  // the first word of a daemon that loads
  if (defect() == "asks-for-no-time" && says(state, "EXTEND_TIMEOUT_USEC")) return 1;
  if (defect() == "keeps-its-state" && says(state, "STATUS")) return 1;
  if (defect() == "feeds-no-watchdog" && says(state, "WATCHDOG")) return 1;
  return __real_sd_notify(unset_environment, state);
}

}  // namespace
}  // namespace modeld::systemd_check

int __wrap_sd_notify(int unset_environment, const char* state) {
  return modeld::systemd_check::notify(unset_environment, state);
}
