// Long text inside a page: deflated (zlib's format, RFC 1950) and written as base64, which every
// browser undoes without any library. Contract: same text, same result with one zlib; unpack_text
// is the reader for tests and never makes more than `limit` bytes. Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "hal/base/status.h"

namespace modeld::tools {

std::string pack_text(std::string_view text);
// kCorrupt when it is not what pack_text makes, or longer than `limit`.
Result<std::string> unpack_text(std::string_view packed, size_t limit = size_t{1} << 28);

}  // namespace modeld::tools
