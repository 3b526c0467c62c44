// Environment variables: the only place that reads them, and the table of every MODELD_* variable
// with default and help. This is not configuration (that is the TOML file): these are debug and
// packaging switches. Contract: asking for a name that is not in the table is a bug (CHECK). An
// empty value counts as unset. Threading: any thread; nobody in this project calls setenv outside
// of tests.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace modeld {

struct EnvVar {
  const char* name;
  const char* fallback;  // the value used when unset; "" means "none"
  const char* help;
};

// Every variable this project reads, sorted by name within two groups: MODELD_* first, then the
// system's.
std::span<const EnvVar> env_table();
// The MODELD_* part as text for --help, one line per variable.
std::string env_help();

// The value as set, or nothing.
std::optional<std::string> env_value(std::string_view name);
// The value as set, or the table's fallback.
std::string env_text(std::string_view name);
// As a whole number; text that is not one counts as the fallback.
int64_t env_int(std::string_view name);
// True unless unset, "0", "false" or "no".
bool env_flag(std::string_view name);

// MODELD_DEBUG: 1 devices, 2 kernel times, 3 schedule, 4 source, 5 IR per pass, 6 packets. Read
// once.
int debug_level();

// $MODELD_CACHE_DIR, else $XDG_CACHE_HOME/modeld, else ~/.cache/modeld; "" when no home is known.
// Not created.
std::string cache_dir();
// $MODELD_RUNTIME_DIR, else $XDG_RUNTIME_DIR/modeld, else /tmp/modeld-$UID. Not created.
std::string runtime_dir();
// $TMPDIR, else /tmp.
std::string temp_root();

}  // namespace modeld
