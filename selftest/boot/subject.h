// One model under test: what the configuration says of it and everything the items opened so far,
// in the order it was opened. This is not the daemon's worker: nothing is locked down, no frame is
// published. Contract: members are empty until the item that fills them has passed; destruction
// closes in reverse order and leaves the device closed. Threading: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hal/backends.h"
#include "hal/base/clock.h"

#include "runtime/exec/compile_plan.h"
#include "runtime/exec/loaded_plan.h"

#include "models/bundle/bundle_reader.h"
#include "models/model.h"
#include "models/selftest_cases.h"

#include "daemon/config.h"
#include "daemon/privilege.h"

#include "selftest/boot/item.h"

namespace modeld::selftest {

// The world around the items; tests put defects into it.
struct World {
  std::function<Result<std::unique_ptr<hal::Device>>(const std::string& uri,
                                                     const hal::DeviceConfig& config)>
      open_device = hal::open_device;
  daemon::ActuatorProbes actuators;
  int replays = 1000;
  int jobs = 2;  // compiler processes
};

// What a report says of a bundle; outlives it.
struct Identity {
  std::string file;
  uint64_t file_bytes = 0;
  std::string role, manifest_hash, model_sha256, signed_by, self_check;
  std::string compiler_version, back_end, codegen_config;
  std::string target, renderer;
  int threads = 0;
  std::string device, device_name;
  double budget_p50_ms = 0, budget_p99_ms = 0;
};

// Cold and hot, nanoseconds; 0: not measured in this suite.
struct Times {
  int64_t open_ns = 0;  // file to checked bundle
  int64_t load_ns = 0;  // bundle to first dry run
  int64_t cold_compile_ns = 0, memory_hit_ns = 0, disk_hit_ns = 0, config_switch_ns = 0;
  int64_t p50_ns = 0, p99_ns = 0, worst_ns = 0;  // of one frame: stage, warp, run, check, commit
  uint64_t frames = 0;
};

struct Subject {
  Subject(const World& w, const daemon::Config& c) : world(w), config(c) {}
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  const bundle::Manifest& manifest() const { return bundle->manifest(); }
  Deadline load_deadline() const { return Deadline::in_ms(model.load_s * 1000); }
  hal::DeviceConfig device_config() const;
  exec::CompileOptions compile_options() const;  // of the plan, with the suite's own cache folder

  const World& world;
  const daemon::Config& config;
  std::string name;           // "road", "road fallback"; "" for items of the host
  daemon::ModelConfig model;  // bundle and device are those under test
  std::string scratch;        // folder of this subject alone
  Identity identity;
  Times times;

  std::unique_ptr<bundle::Bundle> bundle;
  std::unique_ptr<hal::Device> device;
  bool is_trusted = false;    // the signature policy holds
  bool is_on_target = false;  // the device is one the bundle was built for
  bool is_stuck = false;      // a failed item left it busy, and it stays so
  exec::Plan plan;
  std::unique_ptr<exec::LoadedPlan> loaded;
  std::unique_ptr<models::Model> driver;  // what the daemon would drive frame by frame
  std::optional<std::vector<models::CaseResult>> golden;

  // Acceptance: compiled here.
  std::shared_ptr<exec::ProgramCache> programs;  // shared with the compiles that use it
  std::unique_ptr<hal::Device> cpu;              // of the reference
  std::optional<exec::Plan> reference;
};

}  // namespace modeld::selftest
