// Runs a suite over a configuration: items of the host once, then all items for each model and
// fallback in turn. Contract: always comes to an end and always gives a result for every item;
// devices are opened for one model at a time and closed before the next. Threading: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "daemon/config.h"

#include "selftest/boot/item.h"
#include "selftest/boot/subject.h"

namespace modeld::selftest {

struct ItemResult {
  const char* name = "";
  const char* reason = "";
  Outcome outcome;
  int64_t took_ns = 0;
};

struct SubjectResult {
  std::string name;  // "road"; "" for the host
  Identity identity;
  Times times;
  std::vector<ItemResult> items;
};

struct Counts {
  size_t passed = 0, failed = 0, not_run = 0;
};

struct SuiteResult {
  Suite suite = Suite::kBoot;
  std::string config_path;
  std::vector<SubjectResult> subjects;  // the host first
  int64_t took_ns = 0;

  Counts counts() const;
  // 0 every item passed; 78 configuration or bundle cannot be used; 1 anything else failed.
  int exit_code() const;
};

// `progress` is told which item begins.
using ProgressText = std::function<void(const std::string& subject, const char* item)>;
SuiteResult run_suite(const World& world,
                      const daemon::Config& config,
                      Suite suite,
                      const ProgressText& progress = {});

// The items of one subject, for tests that stand a subject up themselves.
std::vector<ItemResult> run_items(Subject& s,
                                  std::span<const Item> table,
                                  Suite suite,
                                  const ProgressText& progress = {});

}  // namespace modeld::selftest
