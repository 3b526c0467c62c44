// Text to markup that HTML and XML parsers read alike: escaping, tags, tables. Contract: whatever
// the text holds (names come from model files), the result is well-formed UTF-8: characters that
// mean something are escaped, bytes that are no text become U+FFFD. Threading: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace modeld::tools {

// For text and for attribute values between double quotes.
std::string escape_markup(std::string_view text);

// <name a="b">inner</name>; attribute values are escaped, `inner` is markup already.
using Attributes = std::vector<std::pair<const char*, std::string>>;
std::string tag(const char* name, const Attributes& attributes, std::string_view inner);

// A table: the first row is its head; cells are markup already. `numbers`: columns set flush right.
struct TableStyle {
  std::vector<size_t> numbers;
};
std::string markup_table(const std::vector<std::vector<std::string>>& rows,
                         const TableStyle& style = {});

}  // namespace modeld::tools
