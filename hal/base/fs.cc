#include "hal/base/fs.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "hal/base/bytes.h"
#include "hal/base/env.h"

namespace modeld {

namespace {

Errc open_errc(int err) {
  return err == ENOENT || err == ENOTDIR ? Errc::kNotFound : Errc::kIo;
}

Result<UniqueFd> open_regular(const std::string& path, uint64_t limit_bytes, uint64_t* size) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // no hanging on a FIFO
  if (!fd.is_open()) return fail_errno(open_errc(errno), "open " + path, errno);
  struct stat st {};
  if (fstat(fd.get(), &st) != 0) return fail_errno(Errc::kIo, "stat " + path, errno);
  if (!S_ISREG(st.st_mode)) return fail(Errc::kInvalid, path + " is not a regular file");
  *size = static_cast<uint64_t>(st.st_size);
  if (*size > limit_bytes)
    return fail(Errc::kInvalid, strf("%s has %llu bytes, limit is %llu", path.c_str(),
                                     static_cast<unsigned long long>(*size),
                                     static_cast<unsigned long long>(limit_bytes)));
  return fd;
}

template <class Bytes>
Result<Bytes> read_whole(const std::string& path, uint64_t limit_bytes) {
  uint64_t size = 0;
  ASSIGN_OR_RETURN(const UniqueFd fd, open_regular(path, limit_bytes, &size));
  Bytes out(static_cast<size_t>(size), typename Bytes::value_type{});
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = read(fd.get(), out.data() + done, out.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(Errc::kIo, "read " + path, errno);
    if (n == 0)
      return fail(Errc::kIo,
                  strf("read %s: ended at %zu of %zu bytes", path.c_str(), done, out.size()));
    done += static_cast<size_t>(n);
  }
  return out;
}

Status sync_dir(const std::string& dir) {
  UniqueFd fd(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) return fail_errno(Errc::kIo, "open " + dir, errno);
  if (fsync(fd.get()) != 0 && errno != EINVAL && errno != EROFS)
    return fail_errno(Errc::kIo, "fsync " + dir, errno);
  return {};
}

int remove_entry(const char* path, const struct stat*, int, struct FTW*) {
  return ::remove(path);
}

}  // namespace

Result<std::vector<std::byte>> read_file(const std::string& path, uint64_t limit_bytes) {
  return read_whole<std::vector<std::byte>>(path, limit_bytes);
}

Result<std::string> read_text(const std::string& path, uint64_t limit_bytes) {
  return read_whole<std::string>(path, limit_bytes);
}

Status AtomicFile::create_nameless(unsigned mode) {
  fd_.reset(open(dir_name(path_).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode));
  if (!fd_.is_open()) return fail_errno(open_errc(errno), "create a file beside " + path_, errno);
  temp_path_ = strf("/proc/self/fd/%d", fd_.get());
  if (!file_exists(temp_path_)) return fail(Errc::kUnsupported, "no /proc to name a file from");
  return {};
}

Status AtomicFile::create_named(unsigned mode) {
  temp_path_ = strf("%s/.%s.XXXXXX", dir_name(path_).c_str(), base_name(path_).c_str());
  fd_.reset(mkostemp(temp_path_.data(), O_CLOEXEC));
  if (!fd_.is_open()) return fail_errno(open_errc(errno), "create a file beside " + path_, errno);
  is_named_ = true;
  // Read once: umask() can only be read by setting it, which two threads must not do at a time.
  static const mode_t mask = [] {
    const mode_t old = umask(0);
    umask(old);
    return old;
  }();
  if (fchmod(fd_.get(), static_cast<mode_t>(mode & ~mask)) != 0)
    return fail_errno(Errc::kIo, "chmod " + temp_path_, errno);
  return {};
}

Result<AtomicFile> AtomicFile::create(const std::string& path, unsigned mode) {
  AtomicFile file;
  file.path_ = path;
  if (file.create_nameless(mode).ok()) return file;
  RETURN_IF_ERROR(file.create_named(mode));
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& o) noexcept
    : fd_(std::move(o.fd_)),
      path_(std::exchange(o.path_, {})),
      temp_path_(std::exchange(o.temp_path_, {})),
      is_named_(std::exchange(o.is_named_, false)) {}

AtomicFile::~AtomicFile() {
  if (is_named_) unlink(temp_path_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd_.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(Errc::kIo, "write " + path_, errno);
    done += static_cast<size_t>(n);
  }
  return {};
}

// A link cannot replace a file, so the content gets a hidden name first: it is there for the time
// of two system calls.
Status AtomicFile::link_nameless() {
  static std::atomic<uint64_t> counter{0};
  const std::string name =
      strf("%s/.%s.%d-%llu", dir_name(path_).c_str(), base_name(path_).c_str(),
           static_cast<int>(getpid()), static_cast<unsigned long long>(counter.fetch_add(1)));
  unlink(name.c_str());  // of a process of the same number that died between the two calls
  if (linkat(AT_FDCWD, temp_path_.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
    return fail_errno(Errc::kIo, "link " + name, errno);
  temp_path_ = name;
  is_named_ = true;
  return {};
}

Status AtomicFile::commit() {
  if (fsync(fd_.get()) != 0) return fail_errno(Errc::kIo, "fsync " + temp_path_, errno);
  if (!is_named_) RETURN_IF_ERROR(link_nameless());
  if (rename(temp_path_.c_str(), path_.c_str()) != 0)
    return fail_errno(Errc::kIo, "rename to " + path_, errno);
  is_named_ = false;
  temp_path_.clear();
  fd_.reset();
  return sync_dir(dir_name(path_));
}

Status write_file_atomic(const std::string& path, std::span<const std::byte> bytes, unsigned mode) {
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, mode));
  RETURN_IF_ERROR(file.write(bytes));
  return file.commit();
}

Status write_text_atomic(const std::string& path, std::string_view text, unsigned mode) {
  return write_file_atomic(path, bytes_of(text), mode);
}

Status make_dirs(const std::string& path, unsigned mode) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (!part.empty() && mkdir(part.c_str(), static_cast<mode_t>(mode)) != 0 && errno != EEXIST)
      return fail_errno(Errc::kIo, "mkdir " + part, errno);
    if (end == std::string::npos) break;
  }
  struct stat st {};
  if (stat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode))
    return fail(Errc::kIo, "mkdir " + path + ": something else has that name");
  return {};
}

bool file_exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

Result<uint64_t> file_size(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return fail_errno(open_errc(errno), "stat " + path, errno);
  return static_cast<uint64_t>(st.st_size);
}

Result<std::vector<std::string>> list_dir(const std::string& path) {
  std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(path.c_str()), closedir);
  if (!dir) return fail_errno(open_errc(errno), "open directory " + path, errno);
  std::vector<std::string> names;
  while (const dirent* e = readdir(dir.get())) {
    const std::string name = e->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status remove_file(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT)
    return fail_errno(Errc::kIo, "remove " + path, errno);
  return {};
}

std::string join_path(const std::string& dir, const std::string& name) {
  if (dir.empty() || (!name.empty() && name[0] == '/')) return name;
  return dir.back() == '/' ? dir + name : dir + "/" + name;
}

std::string base_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string dir_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<TempDir> TempDir::create(const std::string& prefix) {
  std::string path = join_path(temp_root(), prefix + "-XXXXXX");
  if (mkdtemp(path.data()) == nullptr)
    return fail_errno(Errc::kIo, "create directory " + path, errno);
  return TempDir(path);
}

TempDir::~TempDir() {
  if (!path_.empty()) nftw(path_.c_str(), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

}  // namespace modeld
