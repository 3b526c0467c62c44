#include "hal/base/usage.h"

#include <algorithm>
#include <cstdio>

#include "hal/base/status.h"
#include "hal/base/text.h"

namespace modeld {
namespace {

constexpr int kExitUsage = 2;

std::string quoted(const std::string& word) {
  return "\"" + word + "\"";
}

std::string of_all(std::span<const std::string> words) {
  std::string out = words.size() == 1 ? "unknown argument" : "unknown arguments";
  for (const std::string& word : words) out += " " + quoted(word);
  return out;
}

}  // namespace

std::string usage_line(const std::string& program,
                       const std::string& text,
                       std::span<const std::string> stray) {
  std::string line =
      program + ": " + (stray.empty() ? text : of_all(stray)) + " (see " + program + " --help)";
  // What was typed is in it, and may hold anything.
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return line;
}

int usage_error(const std::string& program,
                const std::string& text,
                std::span<const std::string> stray) {
  std::fprintf(stderr, "%s\n", usage_line(program, text, stray).c_str());
  return kExitUsage;
}

std::string number_defect(const std::string& text, double low, double high) {
  const auto value = parse_double(text);
  if (value.ok() && *value >= low && *value <= high) return "";
  return quoted(text) + strf(" is not a number from %.10g to %.10g", low, high);
}

std::string whole_number_defect(const std::string& text) {
  const auto value = parse_int(text);
  if (value.ok() && *value >= 0) return "";
  return quoted(text) + " is not a whole number from 0 to 2^63-1";
}

}  // namespace modeld
