// Figures and tables as people read them on a terminal. Threading: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace modeld::tools {

// "12.3 MB", "1.25 ms", "3.4 GFLOP"
std::string bytes_text(uint64_t bytes);
std::string time_text(int64_t ns);
std::string flops_text(uint64_t flops);

// Columns padded to their widest cell; two spaces in front, no trailing blanks.
std::string text_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace modeld::tools
