#include "hal/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>

#include "hal/base/env.h"

namespace modeld {

namespace {

constexpr uint8_t kUnset = 255;
std::atomic<uint8_t> g_level{kUnset};

struct LevelWord {
  const char* name;
  const char* journal;
  spdlog::level::level_enum spd;
};

const LevelWord& level_word(LogLevel level) {
  static constexpr LevelWord kWords[] = {
      {"trace", "<7>", spdlog::level::trace}, {"debug", "<7>", spdlog::level::debug},
      {"info", "<6>", spdlog::level::info},   {"warn", "<4>", spdlog::level::warn},
      {"error", "<3>", spdlog::level::err},   {"off", "<3>", spdlog::level::off},
  };
  return kWords[static_cast<size_t>(level)];
}

// Built at the first line and never destroyed: threads may log while the process ends.
spdlog::logger& logger() {
  static spdlog::logger* const instance = [] {
    auto* made = new spdlog::logger("modeld", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::trace);  // log_enabled decides
    made->set_pattern("%v");
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) {
  g_level.store(static_cast<uint8_t>(level), std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) {
  uint8_t current = g_level.load(std::memory_order_relaxed);
  if (current == kUnset) {
    const int debug = debug_level();
    const LogLevel start =
        debug >= 6 ? LogLevel::kTrace : (debug >= 1 ? LogLevel::kDebug : LogLevel::kInfo);
    current = static_cast<uint8_t>(start);
    g_level.store(current, std::memory_order_relaxed);
  }
  return static_cast<uint8_t>(level) >= current && level != LogLevel::kOff;
}

void debug_text(int level, const std::string& text) {
  if (debug_level() < level) return;
  const std::string whole = text + "\n";
  (void)!::write(STDERR_FILENO, whole.data(), whole.size());
}

bool stderr_is_journal() {
  const std::optional<std::string> stream = env_value("JOURNAL_STREAM");
  struct stat st {};
  if (!stream || fstat(STDERR_FILENO, &st) != 0) return false;
  return *stream == strf("%llu:%llu", static_cast<unsigned long long>(st.st_dev),
                         static_cast<unsigned long long>(st.st_ino));
}

std::string log_line(LogLevel level, const char* category, const std::string& text, bool journal) {
  const LevelWord& word = level_word(level);
  std::string line = journal ? std::string(word.journal) : strf("[%s] ", word.name);
  line += category;
  line += ": ";
  // One event is one line: a prefix on the first line only would lose the priority of the rest.
  for (const char c : text) line += c == '\n' ? ' ' : c;
  return line;
}

void log_write(LogLevel level, const char* category, const std::string& text) {
  static const bool journal = stderr_is_journal();
  try {
    logger().log(level_word(level).spd,
                 spdlog::string_view_t(log_line(level, category, text, journal)));
  } catch (const std::exception&) {
    // stderr is closed or full: there is nowhere left to say so.
  }
}

}  // namespace modeld
