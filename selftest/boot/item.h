// The items of the boot self-test and of the acceptance suite: what each looks at, why, and what it
// found. items.cc holds the table; a new item is a row there and a function. This is not the runner
// (runner.h) and not a report (report.h). Contract: an item never ends the program; whatever is
// wrong is a failed Outcome whose text names the first thing wrong, with the values seen.
// Threading: one thread. Units are in the figures' names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/status.h"

namespace modeld::selftest {

struct Subject;  // subject.h

enum class Suite : uint8_t { kBoot = 1, kAcceptance = 2 };
const char* suite_name(Suite suite);  // "boot"
Result<Suite> parse_suite(std::string_view text);

enum class Verdict : uint8_t { kPassed, kFailed, kNotRun };
const char* verdict_name(Verdict verdict);  // "passed", "failed", "not_run"

struct Figure {
  const char* name;  // "p99_ms"
  double value;
};

struct Outcome {
  Verdict verdict = Verdict::kPassed;
  std::string text;
  std::vector<Figure> figures;
  bool is_bad_input = false;  // the configuration or the bundle cannot be used: exit code 78
};
Outcome passed(std::string text, std::vector<Figure> figures = {});
Outcome failed(std::string text, std::vector<Figure> figures = {});
Outcome refused(std::string text);  // failed, because of configuration or bundle
Outcome not_run(std::string text);

// What must be there before an item can run.
enum class Needs : uint8_t {
  kHost,     // nothing of a model: once per run
  kFile,     // a model of the configuration
  kBundle,   // its file was opened
  kDevice,   // its device is open and is one the bundle was built for
  kLoaded,   // the bundle is on it
  kCompile,  // the same, and every kernel was compiled here
};

struct Item {
  const char* name;
  const char* reason;  // why it is there
  uint8_t suites;      // Suite bits
  Needs needs;
  Outcome (*run)(Subject& s);

  bool is_in(Suite suite) const { return (suites & static_cast<uint8_t>(suite)) != 0; }
};
// In the order they run.
std::span<const Item> items();

// host_items.cc
Outcome privilege_item(Subject& s);
// bundle_items.cc
Outcome bundle_item(Subject& s);
Outcome signature_item(Subject& s);
Outcome device_item(Subject& s);
Outcome target_item(Subject& s);
Outcome load_item(Subject& s);
// run_items.cc
Outcome golden_item(Subject& s);
Outcome repeat_item(Subject& s);
Outcome finite_item(Subject& s);
Outcome deadline_item(Subject& s);
Outcome timing_item(Subject& s);
Outcome worst_case_item(Subject& s);
// cache_items.cc
Outcome cold_compile_item(Subject& s);
Outcome memory_hit_item(Subject& s);
Outcome disk_hit_item(Subject& s);
Outcome config_switch_item(Subject& s);
Outcome cache_damage_item(Subject& s);
// number_items.cc
Outcome outputs_item(Subject& s);
Outcome kernels_item(Subject& s);
Outcome warp_borders_item(Subject& s);
Outcome mask_edges_item(Subject& s);
Outcome unaligned_item(Subject& s);
Outcome special_numbers_item(Subject& s);
Outcome poisoned_input_item(Subject& s);
// memory_items.cc
Outcome aliasing_item(Subject& s);
Outcome reconnect_item(Subject& s);
Outcome completion_item(Subject& s);

}  // namespace modeld::selftest
