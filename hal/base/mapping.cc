#include "hal/base/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <vector>

#include "hal/base/bytes.h"

namespace modeld {

namespace {

int protection(MapMode mode) {
  switch (mode) {
    case MapMode::kRead:
      return PROT_READ;
    case MapMode::kReadWrite:
      return PROT_READ | PROT_WRITE;
    case MapMode::kReadExec:
      return PROT_READ | PROT_EXEC;
  }
  return PROT_READ;
}

Status write_all_at(int fd, std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail_errno(Errc::kIo, "write to memfd", errno);
    done += static_cast<size_t>(n);
  }
  return {};
}

}  // namespace

Result<Mapping> Mapping::map_fd(int fd, uint64_t offset, uint64_t size, MapMode mode) {
  struct stat st {};
  if (fstat(fd, &st) != 0) return fail_errno(Errc::kIo, strf("fstat of fd %d", fd), errno);
  if (size == 0 || offset % kPageBytes != 0)
    return fail(
        Errc::kInvalid,
        strf("mapping: offset %llu size %llu is not a page-aligned, non-empty range",
             static_cast<unsigned long long>(offset), static_cast<unsigned long long>(size)));
  if (!in_bounds(offset, size, static_cast<uint64_t>(st.st_size)))
    return fail(Errc::kCorrupt,
                strf("mapping: range %llu+%llu lies outside the file of %llu bytes",
                     static_cast<unsigned long long>(offset), static_cast<unsigned long long>(size),
                     static_cast<unsigned long long>(st.st_size)));
  // Shared, so that read-only mappings of one bundle use one copy in memory and camera writers are
  // seen.
  const int flags = mode == MapMode::kReadExec ? MAP_PRIVATE : MAP_SHARED;
  void* p = mmap(nullptr, static_cast<size_t>(size), protection(mode), flags, fd,
                 static_cast<off_t>(offset));
  if (p == MAP_FAILED)
    return fail_errno(Errc::kIo, strf("mmap of %llu bytes", static_cast<unsigned long long>(size)),
                      errno);
  return Mapping(static_cast<std::byte*>(p), static_cast<size_t>(size));
}

Result<Mapping> Mapping::map_file(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open())
    return fail_errno(errno == ENOENT ? Errc::kNotFound : Errc::kIo, "open " + path, errno);
  struct stat st {};
  if (fstat(fd.get(), &st) != 0) return fail_errno(Errc::kIo, "stat " + path, errno);
  if (!S_ISREG(st.st_mode)) return fail(Errc::kInvalid, path + " is not a regular file");
  if (st.st_size == 0) return fail(Errc::kInvalid, path + " is empty");
  Result<Mapping> mapping = map_fd(fd.get(), 0, static_cast<uint64_t>(st.st_size), MapMode::kRead);
  if (!mapping.ok()) return fail(std::move(mapping).error().with(path));
  return mapping;
}

Mapping& Mapping::operator=(Mapping&& o) noexcept {
  if (this != &o) {
    reset();
    data_ = std::exchange(o.data_, nullptr);
    size_ = std::exchange(o.size_, 0);
  }
  return *this;
}

void Mapping::populate_resident() const {
#ifdef MADV_POPULATE_READ
  const size_t pages = (size_ + kPageBytes - 1) / kPageBytes;
  std::vector<unsigned char> resident(pages);
  if (pages == 0 || mincore(data_, size_, resident.data()) != 0) return;
  for (size_t begin = 0; begin < pages;) {
    size_t end = begin;
    while (end < pages && (resident[end] & 1) != 0) ++end;
    // A kernel older than 5.14 refuses; then the pages come one by one.
    if (end > begin)
      (void)madvise(data_ + begin * kPageBytes, (end - begin) * kPageBytes, MADV_POPULATE_READ);
    begin = end + 1;
  }
#endif
}

void Mapping::reset() {
  if (data_ != nullptr) munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

Result<UniqueFd> create_memfd(const std::string& name, uint64_t size_bytes) {
  UniqueFd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.is_open()) return fail_errno(Errc::kIo, "memfd_create " + name, errno);
  if (ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0)
    return fail_errno(
        Errc::kOutOfMemory,
        strf("memfd %s of %llu bytes", name.c_str(), static_cast<unsigned long long>(size_bytes)),
        errno);
  return fd;
}

Status seal_size(int fd) {
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail_errno(Errc::kIo, "seal memfd", errno);
  return {};
}

Status seal_all(int fd) {
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail_errno(Errc::kIo, "seal memfd", errno);
  return {};
}

Status check_size_seals(int fd, uint64_t min_bytes) {
  constexpr int kWanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return fail_errno(Errc::kInvalid, strf("fd %d carries no seals", fd), errno);
  if ((seals & kWanted) != kWanted)
    return fail(Errc::kInvalid,
                strf("fd %d has seals 0x%x, wanted SHRINK|GROW|SEAL 0x%x", fd, seals, kWanted));
  struct stat st {};
  if (fstat(fd, &st) != 0) return fail_errno(Errc::kIo, strf("fstat of fd %d", fd), errno);
  if (static_cast<uint64_t>(st.st_size) < min_bytes)
    return fail(Errc::kInvalid, strf("fd %d has %llu bytes, wanted at least %llu", fd,
                                     static_cast<unsigned long long>(st.st_size),
                                     static_cast<unsigned long long>(min_bytes)));
  return {};
}

Result<UniqueFd> sealed_memfd(const std::string& name, std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(UniqueFd fd, create_memfd(name, bytes.size()));
  RETURN_IF_ERROR(write_all_at(fd.get(), bytes));
  RETURN_IF_ERROR(seal_all(fd.get()));
  return fd;
}

}  // namespace modeld
