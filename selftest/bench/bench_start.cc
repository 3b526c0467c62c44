// bench_start: from the start of modeld to loaded (WARMING), and to the first valid message, with
// the small models and a camera that already serves. Contract: one JSON object per model, one
// closing line with the strict limits; a limit that is not held is printed, not failed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "hal/base/env.h"

#include "selftest/e2e/harness.h"

namespace modeld::bench {
namespace {

using ipc::ModelState;

constexpr int64_t kLoadMs = 60'000;
constexpr double kLoadedLimitMs = 300;
constexpr double kFps = 20;
constexpr double kMoreFrames = 3;  // in flight, and up to one period of waiting for the first

struct Times {
  std::vector<double> loaded_ms, valid_ms;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? -1 : values[values.size() / 2];
}

double limit_ms(uint32_t context_frames) {
  return kLoadedLimitMs + (context_frames + kMoreFrames) / kFps * 1e3;
}

void wait_for_camera(const e2e::Rig& rig) {
  const Deadline end = Deadline::in_ms(5000);
  const timespec t{0, 2'000'000};
  while (!file_exists(rig.dir() + "/vehicle") && !end.has_passed()) nanosleep(&t, nullptr);
  const timespec frames{0, 200'000'000};  // it has shown some
  nanosleep(&frames, nullptr);
}

// One start of both models.
void measure(std::map<std::string, Times>& times, std::map<std::string, uint32_t>& context) {
  int64_t start_ns = 0;
  e2e::RigOptions options;
  for (const char* m : {"road", "cabin"}) options.bundles[m] = e2e::standin_bundle(m, "small");
  options.before_daemon = [&](const e2e::Rig& rig) {
    wait_for_camera(rig);
    start_ns = now_ns();
  };
  e2e::Rig rig(options);
  for (const char* model : {"road", "cabin"}) {
    EXPECT_TRUE(rig.tap().wait_state(model, ModelState::kReady, kLoadMs)) << model;
    for (const e2e::Transition& t : rig.tap().transitions(model)) {
      const bool is_loaded =
          t.status.state == ModelState::kWarming || t.status.state == ModelState::kReady;
      if (!is_loaded) continue;
      times[model].loaded_ms.push_back(static_cast<double>(t.status.since_ns - start_ns) / 1e6);
      break;
    }
    for (const e2e::Output& o : rig.tap().outputs(model)) {
      if (!o.header.valid) continue;
      times[model].valid_ms.push_back(static_cast<double>(o.at_ns - start_ns) / 1e6);
      break;
    }
    context[model] = rig.tap().status(model)->context_frames;
  }
}

void run(int runs) {
  std::map<std::string, Times> times;
  std::map<std::string, uint32_t> context;
  for (int i = 0; i < runs; ++i) measure(times, context);
  std::string line;
  for (const auto& [model, t] : times) {
    const double loaded = median(t.loaded_ms), valid = median(t.valid_ms);
    const double valid_limit = limit_ms(context[model]);
    Json out = Json::object();
    out.set("model", model + " small").set("runs", runs);
    out.set("loaded_ms", loaded).set("first_valid_ms", valid);
    std::printf("%s\n", out.dump().c_str());
    line +=
        strf(" %s loaded %.0f ms (limit %.0f, %s), first valid %.0f ms (limit %.0f, %s);",
             model.c_str(), loaded, kLoadedLimitMs, loaded <= kLoadedLimitMs ? "held" : "NOT HELD",
             valid, valid_limit, valid <= valid_limit ? "held" : "NOT HELD");
  }
  std::printf("bench_start:%s median of %d\n", line.c_str(), runs);
}

}  // namespace
}  // namespace modeld::bench

int main(int argc, char** argv) {
  CLI::App app("From the start of modeld to loaded and to the first valid message");
  int runs = 5;
  app.add_option("--count", runs, "starts, the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.footer(modeld::env_help());
  CLI11_PARSE(app, argc, argv);
  modeld::bench::run(runs);
  return testing::Test::HasFailure() ? 1 : 0;
}
