// YUV4MPEG2 files, 4:2:0 with 8 bits only, as an endless NV12 source: frame i is picture i modulo
// the picture count. Contract: the header is bounded and checked, the file size must fit whole
// pictures; anything else is an error naming it. Threading: read() is one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"
#include "hal/base/unique_fd.h"

#include "ipc/frame.h"

namespace modeld::ipc {

struct Y4mHeader {
  uint32_t width = 0;
  uint32_t height = 0;
  size_t header_bytes = 0;  // including the newline
};

// Parses the first line of a file; fuzzed.
Result<Y4mHeader> parse_y4m_header(std::span<const std::byte> bytes);

class Y4mReader final {
 public:
  static Result<Y4mReader> open(const std::string& path);
  const Nv12Geometry& geometry() const { return geometry_; }
  uint64_t picture_count() const { return offsets_.size(); }
  // Writes the picture into an NV12 buffer of geometry().size bytes; padding is 16 (luma) and 128
  // (chroma).
  Status read(uint64_t frame_id, std::span<uint8_t> nv12);

 private:
  Y4mReader() = default;
  Status index(uint64_t file_bytes, size_t header_bytes);
  UniqueFd fd_;
  std::string path_;
  Nv12Geometry geometry_;
  std::vector<uint64_t> offsets_;  // of the pictures' first bytes
  std::vector<uint8_t> picture_;
};

}  // namespace modeld::ipc
