// What a program says of a command line that it cannot use: one line that names the words, as every
// program says it. Not a parser, and knows none. Threading: pure functions, but for usage_error.
#pragma once

#include <span>
#include <string>

namespace modeld {

// "PROGRAM: unknown argument "wibble" (see PROGRAM --help)"; without `stray` words, which are what
// the program did not understand, it is `text`, the parser's complaint, that stands in the middle.
std::string usage_line(const std::string& program,
                       const std::string& text,
                       std::span<const std::string> stray = {});

// That line on stderr; the exit code 2.
int usage_error(const std::string& program,
                const std::string& text,
                std::span<const std::string> stray = {});

// "" for a number from `low` to `high`, both included; else a parser's complaint:
// ""abc" is not a number from 0.001 to 60".
std::string number_defect(const std::string& text, double low, double high);
// "" for a whole number that is not negative.
std::string whole_number_defect(const std::string& text);

}  // namespace modeld
