#include "daemon/device_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>

#include "hal/base/fs.h"
#include "hal/base/text.h"

namespace modeld::daemon {
namespace {

std::string lock_path(const std::string& stem, const std::string& device_uri) {
  std::string name = device_uri;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
  }
  return stem + "." + name + ".lock";
}

}  // namespace

Result<UniqueFd> lock_device(const std::string& stem, const std::string& device_uri) {
  const std::string path = lock_path(stem, device_uri);
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640));
  if (!fd.is_open())
    return fail_errno(Errc::kIo, "locking device " + device_uri + ": " + path, errno);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK)
    return fail_errno(Errc::kIo, "locking device " + device_uri + ": " + path, errno);
  const auto holder = read_text(path, 64);
  return fail(Errc::kBusy, "device " + device_uri + " is held by a worker that does not end, pid " +
                               (holder.ok() ? std::string(trim(*holder)) : "unknown"));
}

void name_holder(const UniqueFd& lock, int pid) {
  const std::string text = std::to_string(pid) + "\n";
  // Only for people: the lock holds without it.
  if (ftruncate(lock.get(), 0) == 0) (void)!pwrite(lock.get(), text.data(), text.size(), 0);
}

}  // namespace modeld::daemon
