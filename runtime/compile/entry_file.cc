#include "runtime/compile/entry_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "hal/base/bytes.h"
#include "hal/base/fs.h"
#include "hal/base/unique_fd.h"

namespace modeld::compile {

namespace {

constexpr uint64_t kMaxEntryBytes = uint64_t{80} << 20;

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

// A nameless file that gets its name when it is complete: whatever kills us leaves nothing behind.
// false: the file system cannot do that.
bool link_nameless(const std::string& path, std::span<const std::byte> bytes, bool* done) {
  UniqueFd fd(::open(dir_name(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (!fd.is_open())
    return errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL;
  if (!write_all(fd.get(), bytes)) return true;
  const std::string proc = strf("/proc/self/fd/%d", fd.get());
  if (::linkat(AT_FDCWD, proc.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0 ||
      errno == EEXIST) {
    *done = true;
    return true;
  }
  return false;
}

void link_named(const std::string& path, std::span<const std::byte> bytes) {
  static std::atomic<uint64_t> counter{0};
  const std::string temp = strf("%s.%d.%llu.tmp", path.c_str(), static_cast<int>(getpid()),
                                static_cast<unsigned long long>(counter.fetch_add(1)));
  UniqueFd fd(::open(temp.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  if (!fd.is_open()) return;
  if (!write_all(fd.get(), bytes) || ::rename(temp.c_str(), path.c_str()) != 0)
    ::unlink(temp.c_str());
}

}  // namespace

std::string entry_path(const std::string& dir, const std::string& kind, const Hash256& key) {
  if (dir.empty()) return {};
  const std::string hex = key.hex();
  return join_path(join_path(join_path(dir, kind), hex.substr(0, 2)), hex.substr(2));
}

std::vector<std::byte> seal_entry(uint32_t format,
                                  const Hash256& key,
                                  std::span<const std::byte> payload) {
  ByteWriter w;
  w.write(format);
  w.write_span(std::as_bytes(std::span(key.bytes)));
  w.write_span(payload);
  const Hash256 sum = blake2b(w.bytes());
  w.write_span(std::as_bytes(std::span(sum.bytes)));
  return w.take();
}

Result<std::vector<std::byte>> open_entry(uint32_t format,
                                          const Hash256& key,
                                          std::span<const std::byte> bytes) {
  const auto same = [](std::span<const std::byte> a, const Hash256& b) {
    return std::equal(a.begin(), a.end(), std::as_bytes(std::span(b.bytes)).begin());
  };
  Hash256 sum;
  if (bytes.size() < sizeof(sum.bytes)) return fail(Errc::kCorrupt, "cache entry: too short");
  const auto body = bytes.first(bytes.size() - sizeof(sum.bytes));
  sum = blake2b(body);
  if (!same(bytes.last(sizeof(sum.bytes)), sum))
    return fail(Errc::kCorrupt, "cache entry: wrong checksum");
  ByteReader r(body, "cache entry");
  ASSIGN_OR_RETURN(const uint32_t stored_format, r.read<uint32_t>());
  ASSIGN_OR_RETURN(const auto stored_key, r.read_span(sizeof(key.bytes)));
  if (stored_format != format || !same(stored_key, key))
    return fail(Errc::kCorrupt, "cache entry: of another format or key");
  const auto payload = body.subspan(sizeof(format) + sizeof(key.bytes));
  return std::vector<std::byte>(payload.begin(), payload.end());
}

std::optional<std::vector<std::byte>> load_entry(const std::string& path,
                                                 uint32_t format,
                                                 const Hash256& key) {
  if (path.empty()) return std::nullopt;
  const auto bytes = read_file(path, kMaxEntryBytes);
  if (!bytes.ok()) return std::nullopt;
  auto payload = open_entry(format, key, *bytes);
  if (payload.ok()) return std::move(*payload);
  ::unlink(path.c_str());
  return std::nullopt;
}

void store_entry(const std::string& path,
                 uint32_t format,
                 const Hash256& key,
                 std::span<const std::byte> payload) {
  if (path.empty() || !make_dirs(dir_name(path), 0700).ok()) return;
  // No fsync: an entry that a power cut damages fails its checksum and is a miss.
  const std::vector<std::byte> bytes = seal_entry(format, key, payload);
  bool done = false;
  if (!link_nameless(path, bytes, &done)) link_named(path, bytes);
}

}  // namespace modeld::compile
