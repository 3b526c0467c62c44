#include "models/tools/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "hal/base/clock.h"

namespace modeld::tools {

Progress::Progress() : is_on_(isatty(STDERR_FILENO) == 1) {}

void Progress::show(const std::string& stage, size_t done, size_t total) {
  constexpr size_t kWidth = 30;
  const int64_t now = now_ns();
  const bool is_last = total > 0 && done >= total;
  if (!is_on_ || (!is_last && now - last_ns_ < 50 * kNsPerMs)) return;
  last_ns_ = now;
  const size_t filled = total == 0 ? 0 : std::min(kWidth, kWidth * done / total);
  std::fprintf(stderr, "\r\033[K%-12s [%s%s] %zu/%zu", stage.c_str(),
               std::string(filled, '#').c_str(), std::string(kWidth - filled, ' ').c_str(), done,
               total);
  is_shown_ = true;
}

void Progress::clear() {
  if (is_shown_) std::fprintf(stderr, "\r\033[K");
  is_shown_ = false;
}

}  // namespace modeld::tools
