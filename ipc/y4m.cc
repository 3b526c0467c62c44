#include "ipc/y4m.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "hal/base/text.h"

namespace modeld::ipc {
namespace {

constexpr size_t kMaxHeader = 256;
constexpr std::string_view kMagic = "YUV4MPEG2";
constexpr std::string_view kFrame = "FRAME";
constexpr uint64_t kMaxPictures = 1u << 20;

Result<uint32_t> parse_side(char which, std::string_view text) {
  const auto value = parse_int(text);
  if (!value.ok() || *value < kMinFrameSide || *value > kMaxFrameSide)
    return fail(Errc::kInvalid,
                strf("y4m header: %c%.*s, want %u to %u", which, static_cast<int>(text.size()),
                     text.data(), kMinFrameSide, kMaxFrameSide));
  return static_cast<uint32_t>(*value);
}

// All 4:2:0 sitings have the same layout; only 8 bits per sample are read.
bool is_420_8bit(std::string_view colour) {
  return colour == "420" || colour == "420jpeg" || colour == "420mpeg2" || colour == "420paldv";
}

Status read_exactly(int fd, std::span<uint8_t> out, uint64_t offset, const std::string& path) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(Errc::kIo, "reading " + path, errno);
    if (n == 0)
      return fail(Errc::kCorrupt, strf("%s: ends at byte %llu", path.c_str(),
                                       static_cast<unsigned long long>(offset + done)));
    done += static_cast<size_t>(n);
  }
  return {};
}

}  // namespace

Result<Y4mHeader> parse_y4m_header(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kMaxHeader));
  if (!text.starts_with(kMagic))
    return fail(Errc::kInvalid, "y4m header: does not begin with YUV4MPEG2");
  const size_t end = text.find('\n');
  if (end == std::string_view::npos)
    return fail(Errc::kInvalid, strf("y4m header: no end of line in %zu bytes", text.size()));
  Y4mHeader out;
  out.header_bytes = end + 1;
  for (const std::string& tag : split(text.substr(kMagic.size(), end - kMagic.size()), ' ')) {
    if (tag.empty()) continue;
    const std::string_view value = std::string_view(tag).substr(1);
    if (tag[0] == 'W') {
      ASSIGN_OR_RETURN(out.width, parse_side('W', value));
    } else if (tag[0] == 'H') {
      ASSIGN_OR_RETURN(out.height, parse_side('H', value));
    } else if (tag[0] == 'C' && !is_420_8bit(value)) {
      return fail(Errc::kUnsupported,
                  "y4m header: colour space " + tag + ", only 8 bit 4:2:0 is read");
    } else if (tag[0] == 'I' && value != "p" && value != "?") {
      return fail(Errc::kUnsupported,
                  "y4m header: interlacing " + tag + ", only progressive is read");
    }
  }
  if (out.width == 0 || out.height == 0)
    return fail(Errc::kInvalid, "y4m header: W or H is missing");
  if (out.width % 2 != 0 || out.height % 2 != 0)
    return fail(Errc::kInvalid,
                strf("y4m header: %ux%u, sides must be even", out.width, out.height));
  return out;
}

Result<Y4mReader> Y4mReader::open(const std::string& path) {
  Y4mReader reader;
  reader.path_ = path;
  reader.fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!reader.fd_.is_open()) return fail_errno(Errc::kNotFound, "opening " + path, errno);
  struct stat info {};
  if (fstat(reader.fd_.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return fail(Errc::kInvalid, path + ": not a regular file");
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  std::vector<uint8_t> head(std::min<uint64_t>(file_bytes, kMaxHeader));
  RETURN_IF_ERROR(read_exactly(reader.fd_.get(), head, 0, path));
  const auto header = parse_y4m_header(std::as_bytes(std::span(head)));
  if (!header.ok()) return fail(Error(header.error()).with(path));
  ASSIGN_OR_RETURN(reader.geometry_, nv12_geometry(header->width, header->height));
  reader.picture_.resize(size_t{header->width} * header->height * 3 / 2);
  RETURN_IF_ERROR(reader.index(file_bytes, header->header_bytes));
  return reader;
}

// Each picture has its own "FRAME[ parameters]\n" line: find them all, so that any picture can be
// read alone.
Status Y4mReader::index(uint64_t file_bytes, size_t header_bytes) {
  uint64_t at = header_bytes;
  while (at < file_bytes) {
    uint8_t line[kMaxHeader];
    const size_t n = std::min<uint64_t>(sizeof(line), file_bytes - at);
    RETURN_IF_ERROR(read_exactly(fd_.get(), std::span(line).first(n), at, path_));
    const std::string_view text(reinterpret_cast<const char*>(line), n);
    const size_t end = text.find('\n');
    if (!text.starts_with(kFrame) || end == std::string_view::npos)
      return fail(Errc::kCorrupt, strf("%s: no FRAME line at byte %llu", path_.c_str(),
                                       static_cast<unsigned long long>(at)));
    at += end + 1;
    if (picture_.size() > file_bytes - at)
      return fail(Errc::kCorrupt,
                  strf("%s: picture %zu is cut at byte %llu", path_.c_str(), offsets_.size(),
                       static_cast<unsigned long long>(file_bytes)));
    if (offsets_.size() >= kMaxPictures) return fail(Errc::kInvalid, path_ + ": too many pictures");
    offsets_.push_back(at);
    at += picture_.size();
  }
  if (offsets_.empty()) return fail(Errc::kInvalid, path_ + ": has no picture");
  return {};
}

Status Y4mReader::read(uint64_t frame_id, std::span<uint8_t> nv12) {
  const Nv12Geometry& g = geometry_;
  if (nv12.size() < g.size)
    return fail(Errc::kInvalid,
                strf("%s: buffer of %zu bytes, need %u", path_.c_str(), nv12.size(), g.size));
  RETURN_IF_ERROR(read_exactly(fd_.get(), picture_, offsets_[frame_id % offsets_.size()], path_));
  std::memset(nv12.data(), 16, g.uv_offset);
  std::memset(nv12.data() + g.uv_offset, 128, size_t{g.stride} * g.uv_height);
  for (size_t y = 0; y < g.height; ++y)
    std::memcpy(nv12.data() + y * g.stride, picture_.data() + y * g.width, g.width);
  const uint8_t* const u = picture_.data() + size_t{g.width} * g.height;
  const uint8_t* const v = u + size_t{g.width / 2} * (g.height / 2);
  for (size_t y = 0; y < g.height / 2; ++y) {
    uint8_t* const row = nv12.data() + g.uv_offset + y * g.stride;
    for (size_t x = 0; x < g.width / 2; ++x) {
      row[2 * x] = u[y * (g.width / 2) + x];
      row[2 * x + 1] = v[y * (g.width / 2) + x];
    }
  }
  return {};
}

}  // namespace modeld::ipc
