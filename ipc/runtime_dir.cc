#include "ipc/runtime_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "hal/base/env.h"

namespace modeld::ipc {

std::string runtime_dir(const std::string& flag, const std::string& configured) {
  if (!flag.empty()) return flag;
  if (const auto set = env_value("MODELD_RUNTIME_DIR")) return *set;
  if (!configured.empty()) return configured;
  struct stat info {};
  if (stat("/run/modeld", &info) == 0 && S_ISDIR(info.st_mode)) return "/run/modeld";
  return modeld::runtime_dir();
}

Status make_runtime_dir(const std::string& dir) {
  if (mkdir(dir.c_str(), 0750) == 0) return {};
  const int error = errno;
  struct stat info {};
  if (error == EEXIST && stat(dir.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return {};
    return fail(Errc::kInvalid, strf("runtime directory %s is not a directory", dir.c_str()));
  }
  return fail_errno(Errc::kIo, "making runtime directory " + dir, error);
}

Status share_socket(const std::string& dir, const std::string& path) {
  struct stat of_dir {};
  struct stat of_socket {};
  if (stat(dir.c_str(), &of_dir) != 0) return fail_errno(Errc::kIo, "looking at " + dir, errno);
  if (stat(path.c_str(), &of_socket) != 0)
    return fail_errno(Errc::kIo, "looking at " + path, errno);
  if (of_socket.st_gid != of_dir.st_gid &&
      chown(path.c_str(), static_cast<uid_t>(-1), of_dir.st_gid) != 0)
    return fail_errno(Errc::kIo, "giving " + path + " to the group of its directory", errno);
  if (chmod(path.c_str(), 0660) != 0)
    return fail_errno(Errc::kIo, "setting mode 0660 on " + path, errno);
  return {};
}

}  // namespace modeld::ipc
