#include "hal/base/text.h"

#include <cerrno>
#include <charconv>
#include <cstdlib>

namespace modeld {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    if (end == std::string_view::npos) break;
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

Result<int64_t> parse_int(std::string_view text) {
  std::string_view digits = text;
  const bool negative = !digits.empty() && digits[0] == '-';
  if (negative) digits.remove_prefix(1);
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) {
    base = 16;
    digits.remove_prefix(2);
  }
  uint64_t magnitude = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, magnitude, base);
  const uint64_t limit = uint64_t{1} << 63;
  if (digits.empty() || error != std::errc() || stop != end ||
      magnitude > limit - (negative ? 0 : 1))
    return fail(Errc::kInvalid,
                strf("'%.*s' is not a whole number", static_cast<int>(text.size()), text.data()));
  return static_cast<int64_t>(negative ? ~magnitude + 1 : magnitude);
}

Result<double> parse_double(std::string_view text) {
  double v = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, v);
  if (text.empty() || error != std::errc() || stop != end)
    return fail(Errc::kInvalid,
                strf("'%.*s' is not a number", static_cast<int>(text.size()), text.data()));
  return v;
}

Result<std::vector<int64_t>> parse_dims(std::string_view text) {
  std::vector<int64_t> dims;
  for (const std::string& part : split(text, 'x')) {
    const Result<int64_t> dim = parse_int(part);
    if (!dim.ok() || *dim < 0)
      return fail(Errc::kInvalid, strf("'%.*s' is not a shape such as 1x3x320x320",
                                       static_cast<int>(text.size()), text.data()));
    dims.push_back(*dim);
  }
  if (dims.empty()) return fail(Errc::kInvalid, "an empty text is not a shape such as 1x3x320x320");
  return dims;
}

}  // namespace modeld
