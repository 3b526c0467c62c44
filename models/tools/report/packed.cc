#include "models/tools/report/packed.h"

#include <sodium.h>
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "hal/base/check.h"

namespace modeld::tools {

std::string pack_text(std::string_view text) {
  uLongf length = compressBound(text.size());
  std::vector<unsigned char> bytes(length);
  // Only memory can fail here: the buffer has the size that zlib asked for.
  CHECK(compress2(bytes.data(), &length, reinterpret_cast<const Bytef*>(text.data()), text.size(),
                  Z_BEST_COMPRESSION) == Z_OK);
  std::string out(sodium_base64_encoded_len(length, sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(out.data(), out.size(), bytes.data(), length, sodium_base64_VARIANT_ORIGINAL);
  out.pop_back();  // the encoder's end of string
  return out;
}

Result<std::string> unpack_text(std::string_view packed, size_t limit) {
  std::vector<unsigned char> bytes(packed.size() / 4 * 3 + 3);
  size_t length = 0;
  if (sodium_base642bin(bytes.data(), bytes.size(), packed.data(), packed.size(), nullptr, &length,
                        nullptr, sodium_base64_VARIANT_ORIGINAL) != 0)
    return fail(Errc::kCorrupt, "packed text: no base64");
  // A stream that holds more than this stops with Z_BUF_ERROR.
  for (size_t size = std::min(limit, std::max<size_t>(length * 8, 256));; size *= 4) {
    std::string out(std::min(size, limit), '\0');
    uLongf used = out.size();
    const int rc = uncompress(reinterpret_cast<Bytef*>(out.data()), &used, bytes.data(), length);
    out.resize(used);
    if (rc == Z_OK) return out;
    if (rc != Z_BUF_ERROR || size >= limit)
      return fail(Errc::kCorrupt,
                  strf("packed text of %zu bytes: zlib says %d, limit %zu", length, rc, limit));
  }
}

}  // namespace modeld::tools
