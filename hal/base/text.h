// Small text helpers shared by every parser of ours: split, join, trim, strict numbers.
// Contract: parse_* accept the whole text or nothing; no locale, no leading or trailing spaces.
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/status.h"

namespace modeld {

// "a,,b" gives three parts; "" gives none.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);
std::string_view trim(std::string_view text);
Result<int64_t> parse_int(std::string_view text);  // decimal or 0x...
Result<double> parse_double(std::string_view text);
// "1x3x320x320"
Result<std::vector<int64_t>> parse_dims(std::string_view text);

}  // namespace modeld
