#include "daemon/instance_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "hal/base/fs.h"
#include "hal/base/text.h"

namespace modeld::daemon {

Result<UniqueFd> lock_instance(const std::string& dir, const std::string& program) {
  const std::string path = join_path(dir, "modeld.lock");
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640));
  if (!fd.is_open()) return fail_errno(Errc::kIo, program + ": " + path, errno);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    const auto holder = read_text(path, 64);
    return fail(Errc::kBusy, program + ": another one runs in " + dir + ", pid " +
                                 (holder.ok() ? std::string(trim(*holder)) : "unknown"));
  }
  // The file holds the pid for whoever comes second.
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(fd.get(), 0) != 0 ||
      ::write(fd.get(), pid.data(), pid.size()) != static_cast<ssize_t>(pid.size())) {
    return fail_errno(Errc::kIo, program + ": " + path, errno);
  }
  return fd;
}

}  // namespace modeld::daemon
