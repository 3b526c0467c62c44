#include "hal/base/bytes.h"

namespace modeld {

tl::unexpected<Error> ByteReader::short_read(uint64_t wish) const {
  return fail(Errc::kCorrupt, strf("%s: %llu bytes wanted at offset %zu, size is %zu", what_,
                                   static_cast<unsigned long long>(wish), pos_, bytes_.size()));
}

Result<std::span<const std::byte>> ByteReader::read_span(uint64_t n) {
  if (n > left()) return short_read(n);
  const auto out = bytes_.subspan(pos_, static_cast<size_t>(n));
  pos_ += static_cast<size_t>(n);
  return out;
}

Result<std::string> ByteReader::read_string(uint64_t n) {
  ASSIGN_OR_RETURN(const auto bytes, read_span(n));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status ByteReader::skip(uint64_t n) {
  if (n > left()) return short_read(n);
  pos_ += static_cast<size_t>(n);
  return {};
}

Status ByteReader::seek(uint64_t pos) {
  if (pos > bytes_.size())
    return fail(Errc::kCorrupt, strf("%s: offset %llu lies past the size %zu", what_,
                                     static_cast<unsigned long long>(pos), bytes_.size()));
  pos_ = static_cast<size_t>(pos);
  return {};
}

}  // namespace modeld
