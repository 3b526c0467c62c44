// Log lines to stderr: "category: text" with a level; a journald "<N>" priority prefix when stderr
// is the journal. This is not for results (stdout belongs to --json) and not for libraries:
// libraries return a Status, programs log it once. Contract: arguments are printf-checked and
// formatted only when the level is enabled; a line never exceeds one write. Threading: any thread.
// The level is set once by main (set_log_level or MODELD_DEBUG) and may be read from anywhere.
#pragma once

#include <cstdint>
#include <string>

#include "hal/base/status.h"

namespace modeld {

enum class LogLevel : uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kOff };

void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
// Writes unconditionally (the macros below ask log_enabled first). `category` is a short static
// word such as "daemon".
void log_write(LogLevel level, const char* category, const std::string& text);

// True when fd 2 is the stream that JOURNAL_STREAM names ("dev:inode").
bool stderr_is_journal();
// The line as it goes out, without the newline; pure, for tests.
std::string log_line(LogLevel level, const char* category, const std::string& text, bool journal);

// One rung of the MODELD_DEBUG ladder: text of several lines to stderr as it is, when the level is
// reached. Ask debug_level() first where making the text costs something.
void debug_text(int level, const std::string& text);

}  // namespace modeld

#define MODELD_LOG(level, category, ...)                                 \
  do {                                                                   \
    if (::modeld::log_enabled(level))                                    \
      ::modeld::log_write(level, category, ::modeld::strf(__VA_ARGS__)); \
  } while (false)
#define LOG_TRACE(category, ...) MODELD_LOG(::modeld::LogLevel::kTrace, category, __VA_ARGS__)
#define LOG_DEBUG(category, ...) MODELD_LOG(::modeld::LogLevel::kDebug, category, __VA_ARGS__)
#define LOG_INFO(category, ...) MODELD_LOG(::modeld::LogLevel::kInfo, category, __VA_ARGS__)
#define LOG_WARN(category, ...) MODELD_LOG(::modeld::LogLevel::kWarn, category, __VA_ARGS__)
#define LOG_ERROR(category, ...) MODELD_LOG(::modeld::LogLevel::kError, category, __VA_ARGS__)
