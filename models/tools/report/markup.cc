#include "models/tools/report/markup.h"

#include <algorithm>
#include <cstdint>

namespace modeld::tools {
namespace {

constexpr const char* kNoText = "\xEF\xBF\xBD";  // U+FFFD

// Length of the UTF-8 sequence at the front of `text`; 0: none, overlong, or not allowed in XML.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 || lead == '\n' || lead == '\t' ? (lead == 0x7F ? 0 : 1) : 0;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  uint32_t code = lead & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3F);
  }
  const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code < 0xE000;
  if (code < least[length] || code > 0x10FFFF || is_surrogate || (code & 0xFFFE) == 0xFFFE)
    return 0;
  return length;
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = sequence_length(text);
    const std::string_view piece = text.substr(0, std::max<size_t>(length, 1));
    text.remove_prefix(piece.size());
    if (length == 0)
      out += kNoText;
    else if (piece == "&")
      out += "&amp;";
    else if (piece == "<")
      out += "&lt;";
    else if (piece == ">")
      out += "&gt;";
    else if (piece == "\"")
      out += "&quot;";
    else
      out += piece;
  }
  return out;
}

std::string tag(const char* name, const Attributes& attributes, std::string_view inner) {
  std::string out = std::string("<") + name;
  for (const auto& [key, value] : attributes)
    out += std::string(" ") + key + "=\"" + escape_markup(value) + "\"";
  if (inner.empty()) return out + "/>";
  return out.append(">").append(inner).append("</").append(name).append(">");
}

std::string markup_table(const std::vector<std::vector<std::string>>& rows,
                         const TableStyle& style) {
  std::string out;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < rows[r].size(); ++c) {
      const bool is_number =
          std::find(style.numbers.begin(), style.numbers.end(), c) != style.numbers.end();
      const char* cell = r == 0 ? "th" : "td";
      line += std::string("<") + cell + (is_number ? " class=\"n\">" : ">") + rows[r][c] + "</" +
              cell + ">";
    }
    out += "<tr>" + line + "</tr>\n";
  }
  return "<table>\n" + out + "</table>\n";
}

}  // namespace modeld::tools
