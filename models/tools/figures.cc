#include "models/tools/figures.h"

#include <algorithm>
#include <iterator>

#include "hal/base/status.h"

namespace modeld::tools {

std::string bytes_text(uint64_t bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB"};
  double v = static_cast<double>(bytes);
  size_t unit = 0;
  while (v >= 1000 && unit + 1 < std::size(units)) {
    v /= 1000;
    ++unit;
  }
  return unit == 0 ? strf("%llu B", static_cast<unsigned long long>(bytes))
                   : strf("%.1f %s", v, units[unit]);
}

std::string time_text(int64_t ns) {
  const auto v = static_cast<double>(ns);
  if (ns < 1'000'000) return strf("%.1f us", v / 1e3);
  if (ns < 1'000'000'000) return strf("%.2f ms", v / 1e6);
  return strf("%.2f s", v / 1e9);
}

std::string flops_text(uint64_t flops) {
  const auto v = static_cast<double>(flops);
  if (v < 1e6) return strf("%.1f kFLOP", v / 1e3);
  if (v < 1e9) return strf("%.1f MFLOP", v / 1e6);
  return strf("%.2f GFLOP", v / 1e9);
}

std::string text_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i)
      line += " " + row[i] + std::string(widths[i] - row[i].size() + 1, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace modeld::tools
