// The daemon's configuration: one TOML file, every key checked, nothing guessed.
// Contract: an unknown key, wrong type or value out of range is one line "FILE:LINE: key 'K': ...,
// value seen". Threading: plain values; load_config from any thread. Units are in the names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hal/base/status.h"

namespace modeld::daemon {

inline constexpr int64_t kSimTimeoutMs = 60'000;  // simulated devices are slow by nature

// Whether a device URI names a simulator that takes its time.
bool is_slow_simulator(const std::string& device);

struct ModelConfig {
  std::string name;    // "road" or "cabin"
  std::string bundle;  // a file, or a directory with a.bundle, b.bundle and active
  std::string device = "cpu";
  std::string fallback_bundle;
  std::string fallback_device = "cpu";
  std::string prepare = "missing";  // or "never"
  int64_t late_ms = 50;             // both count from the hand-over to the worker
  int64_t timeout_ms = 150;
  int64_t load_s = 60;
  std::vector<int> cpus;  // empty: not pinned
  int64_t priority = 0;   // 0: normal; 1..99: SCHED_FIFO, memory locked (daemon/realtime.h)
  bool operator==(const ModelConfig&) const = default;
};

struct Config {
  std::string path;
  std::string runtime_dir;  // "": by the rule of ipc/runtime_dir.h
  std::string user;         // "": no drop of rights
  std::string camera_socket = "camera.sock";
  std::vector<ModelConfig> models;  // those the file names, road before cabin
  std::string keys_dir = "/etc/modeld/keys.d";
  bool require_signature = false;
  bool publish_raw = false;
  std::string flight_dir;        // records of failures; "": <runtime_dir>/flight
  int64_t flight_limit_mb = 64;  // of all of them, the oldest go first; 0: none are kept
  int64_t flight_runs = 20;      // before the failure, in each
};

Result<Config> load_config(const std::string& path);
// The same for text; `name` stands for the file in messages.
Result<Config> parse_config(const std::string& text, const std::string& name);

}  // namespace modeld::daemon
