// An owned mmap of a file or memfd: read-only, read-write (shared) or read-execute. Never both
// writable and executable. This is not a file API: the fd stays the caller's and may be closed
// after the call.
// Contract: offset must be page aligned; offset + size must lie inside the file, else kCorrupt (no
// SIGBUS later unless somebody truncates the file, which seals forbid for memfds). size 0 is
// kInvalid.
// Threading: a plain value; the bytes may be read from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "hal/base/status.h"
#include "hal/base/unique_fd.h"

namespace modeld {

enum class MapMode : uint8_t { kRead, kReadWrite, kReadExec };

class Mapping {
 public:
  Mapping() = default;
  static Result<Mapping> map_fd(int fd, uint64_t offset, uint64_t size, MapMode mode);
  // The whole file, read only.
  static Result<Mapping> map_file(const std::string& path);
  Mapping(Mapping&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  Mapping& operator=(Mapping&& o) noexcept;
  ~Mapping() { reset(); }

  void reset();
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Enters what already is in memory into this process's page tables, so that the first read does
  // not fault page by page. Best effort; allocates nothing for holes of a memfd.
  void populate_resident() const;
  // Only for kReadWrite mappings.
  std::span<std::byte> writable() const { return {data_, size_}; }

 private:
  Mapping(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Anonymous shared memory that can be passed over a socket. `name` shows up only in /proc.
Result<UniqueFd> create_memfd(const std::string& name, uint64_t size_bytes);
// Forbids resizing and further seals (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL); content stays
// writable.
Status seal_size(int fd);
// Forbids every change as well, for code and constants.
Status seal_all(int fd);
// kInvalid when the fd is no memfd, lacks one of the size seals or is smaller than min_bytes.
Status check_size_seals(int fd, uint64_t min_bytes);
// A fully sealed memfd with these bytes.
Result<UniqueFd> sealed_memfd(const std::string& name, std::span<const std::byte> bytes);

constexpr uint64_t kPageBytes = 4096;

}  // namespace modeld
