// Files: atomic writes, limited reads, directories, temporary directories that remove themselves.
// Contract: write_file_atomic leaves either the old file or the whole new one (temporary in the
// same directory, fsync, rename, fsync of the directory). The temporary has no name where the file
// system can do that (O_TMPFILE), so a killed program leaves nothing behind, and never a
// half-written target.
// Threading: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hal/base/status.h"
#include "hal/base/unique_fd.h"

namespace modeld {

// kInvalid when the file is larger than limit_bytes; the message names path and sizes.
Result<std::vector<std::byte>> read_file(const std::string& path,
                                         uint64_t limit_bytes = uint64_t{4} << 30);
Result<std::string> read_text(const std::string& path, uint64_t limit_bytes = uint64_t{64} << 20);
Status write_file_atomic(const std::string& path,
                         std::span<const std::byte> bytes,
                         unsigned mode = 0644);
Status write_text_atomic(const std::string& path, std::string_view text, unsigned mode = 0644);

// The same in steps, for files that are written piecewise or checked before they get their name.
// Without commit() the destructor removes the temporary.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path, unsigned mode = 0644);
  AtomicFile(AtomicFile&& o) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();
  Status write(std::span<const std::byte> bytes);
  int fd() const { return fd_.get(); }
  // Opens the content written so far, in this process and until commit().
  const std::string& temp_path() const { return temp_path_; }
  Status commit();

 private:
  AtomicFile() = default;
  Status create_nameless(unsigned mode);
  Status create_named(unsigned mode);
  Status link_nameless();  // to a name that rename() can move
  UniqueFd fd_;
  std::string path_, temp_path_;
  bool is_named_ = false;  // temp_path_ is a name in the directory
};

Status make_dirs(const std::string& path, unsigned mode = 0755);
bool file_exists(const std::string& path);
Result<uint64_t> file_size(const std::string& path);
// Names of the entries of a directory, sorted, without "." and "..".
Result<std::vector<std::string>> list_dir(const std::string& path);
Status remove_file(const std::string& path);  // ok when it is not there
std::string join_path(const std::string& dir, const std::string& name);
std::string base_name(const std::string& path);
std::string dir_name(const std::string& path);  // "." when there is none

// A new directory under env's temp root, removed with its content by the destructor.
class TempDir {
 public:
  static Result<TempDir> create(const std::string& prefix = "modeld");
  TempDir(TempDir&& o) noexcept : path_(std::exchange(o.path_, {})) {}
  TempDir& operator=(TempDir&&) = delete;
  ~TempDir();
  const std::string& path() const { return path_; }

 private:
  explicit TempDir(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace modeld
