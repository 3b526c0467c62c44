#include "hal/base/env.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "hal/base/check.h"
#include "hal/base/status.h"
#include "hal/base/text.h"

namespace modeld {

namespace {

constexpr EnvVar kTable[] = {
    {"MODELD_ASSERT_COMPILE", "0",
     "1: compiling any kernel is an error (proves that a bundle is complete)"},
    {"MODELD_CACHE_DIR", "",
     "kernel cache directory; default $XDG_CACHE_HOME/modeld or ~/.cache/modeld"},
    {"MODELD_DEBUG", "0",
     "1 devices, 2 kernel times, 3 schedule, 4 source, 5 IR per pass, 6 packets (devices that have "
     "them)"},
    {"MODELD_DUMP", "",
     "directory that receives NN-pass.txt, the text after every compiler pass; a kernel's own "
     "passes as KERNEL-NN-pass.txt, KERNEL ending in its program key"},
#ifdef MODELD_FAULTS
    {"MODELD_FAULT", "", "NAME[=VALUE],...: fault switches"},
#endif
    {"MODELD_RUNTIME_DIR", "",
     "sockets and lock; the first of: option --dir, this, runtime_dir of modeld's configuration, "
     "/run/modeld if it exists, $XDG_RUNTIME_DIR/modeld, /tmp/modeld-UID"},
    {"MODELD_SHARED", "", "directory with the public test models; tests skip what is absent"},
    {"MODELD_TRACE", "", "file that receives a Chrome trace when the program ends"},
    {"MODELD_VALIDATE", "0",
     "1: check every device command (bounds, lifetime, signal order) before it runs"},
    {"HOME", "", "home directory"},
    {"JOURNAL_STREAM", "", "set by systemd: the journal's device and inode"},
    {"MONITOR_EXIT_CODE", "", "set by systemd for modeld-unavailable: how modeld ended"},
    {"MONITOR_EXIT_STATUS", "", "set by systemd: modeld's exit code or signal"},
    {"MONITOR_SERVICE_RESULT", "", "set by systemd: modeld's result"},
    {"PATH", "/usr/local/bin:/usr/bin:/bin", "where programs are looked up"},
    {"TMPDIR", "/tmp", "temporary files"},
    {"XDG_CACHE_HOME", "", "per-user cache directory"},
    {"XDG_RUNTIME_DIR", "", "per-user runtime directory"},
};

const EnvVar& entry(std::string_view name) {
  for (const EnvVar& v : kTable) {
    if (name == v.name) return v;
  }
  CHECK(false && "variable is missing in the table of hal/base/env.cc");
  return kTable[0];
}

}  // namespace

std::span<const EnvVar> env_table() {
  return kTable;
}

std::string env_help() {
  std::string out = "Environment:\n";
  for (const EnvVar& v : kTable) {
    if (std::string_view(v.name).substr(0, 7) != "MODELD_") continue;
    out += strf("  %-22s %s", v.name, v.help);
    if (v.fallback[0] != '\0') out += strf(" (default %s)", v.fallback);
    out += '\n';
  }
  return out;
}

std::optional<std::string> env_value(std::string_view name) {
  const char* text = std::getenv(entry(name).name);
  if (text == nullptr || text[0] == '\0') return std::nullopt;
  return std::string(text);
}

std::string env_text(std::string_view name) {
  return env_value(name).value_or(entry(name).fallback);
}

int64_t env_int(std::string_view name) {
  const Result<int64_t> set = parse_int(env_text(name));
  if (set.ok()) return *set;
  return parse_int(entry(name).fallback).value_or(0);
}

bool env_flag(std::string_view name) {
  const std::string text = env_text(name);
  return !text.empty() && text != "0" && text != "false" && text != "no";
}

int debug_level() {
  static const int level = static_cast<int>(std::clamp<int64_t>(env_int("MODELD_DEBUG"), 0, 7));
  return level;
}

std::string cache_dir() {
  if (auto dir = env_value("MODELD_CACHE_DIR")) return *dir;
  if (auto dir = env_value("XDG_CACHE_HOME")) return *dir + "/modeld";
  if (auto dir = env_value("HOME")) return *dir + "/.cache/modeld";
  return "";
}

std::string runtime_dir() {
  if (auto dir = env_value("MODELD_RUNTIME_DIR")) return *dir;
  if (auto dir = env_value("XDG_RUNTIME_DIR")) return *dir + "/modeld";
  return strf("/tmp/modeld-%u", static_cast<unsigned>(getuid()));
}

std::string temp_root() {
  return env_text("TMPDIR");
}

}  // namespace modeld
