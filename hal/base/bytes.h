// Bounds-checked little-endian reader and writer for every untrusted file, message and packet.
// This is not a serialisation format: it moves numbers, strings and spans, nothing else.
// Contract: a read past the end leaves the position where it was and returns kCorrupt with offset,
// wish and size. Threading: plain values; ByteReader borrows its bytes.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/status.h"

namespace modeld {

static_assert(std::endian::native == std::endian::little,
              "file formats are little endian and read in place");

template <class T>
concept Scalar = std::integral<T> || std::floating_point<T>;

class ByteReader {
 public:
  // `what` names the source in errors, for instance "bundle road.bundle"; it must outlive the
  // reader.
  explicit ByteReader(std::span<const std::byte> bytes, const char* what = "data")
      : bytes_(bytes), what_(what) {}

  template <Scalar T>
  Result<T> read() {
    T v{};
    if (left() < sizeof(T)) return short_read(sizeof(T));
    std::memcpy(&v, bytes_.data() + pos_, sizeof(T));
    pos_ += sizeof(T);
    return v;
  }
  Result<std::span<const std::byte>> read_span(uint64_t n);
  Result<std::string> read_string(uint64_t n);
  Status skip(uint64_t n);
  Status seek(uint64_t pos);

  size_t pos() const { return pos_; }
  size_t left() const { return bytes_.size() - pos_; }
  bool at_end() const { return left() == 0; }

 private:
  tl::unexpected<Error> short_read(uint64_t wish) const;

  std::span<const std::byte> bytes_;
  const char* what_;
  size_t pos_ = 0;
};

class ByteWriter {
 public:
  template <Scalar T>
  void write(T v) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &v, sizeof(T));
  }
  void write_span(std::span<const std::byte> b) { bytes_.insert(bytes_.end(), b.begin(), b.end()); }
  void write_string(std::string_view s) {
    write_span(std::as_bytes(std::span(s.data(), s.size())));
  }
  // Zero bytes up to the next multiple of `align`.
  void pad_to(size_t align) { bytes_.resize((bytes_.size() + align - 1) / align * align); }

  size_t size() const { return bytes_.size(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// [offset, offset + size) lies inside [0, total), without overflow.
constexpr bool in_bounds(uint64_t offset, uint64_t size, uint64_t total) {
  return offset <= total && size <= total - offset;
}
// Smallest multiple of `align` (a power of two) that is >= n; the caller knows that n + align does
// not overflow.
constexpr uint64_t align_up(uint64_t n, uint64_t align) {
  return (n + align - 1) & ~(align - 1);
}

inline std::span<const std::byte> bytes_of(std::string_view s) {
  return std::as_bytes(std::span(s.data(), s.size()));
}

}  // namespace modeld
