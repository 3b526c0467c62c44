#include "selftest/boot/runner.h"

#include <optional>
#include <utility>

#include "hal/base/clock.h"
#include "hal/base/fs.h"

namespace modeld::selftest {
namespace {

constexpr int64_t kRestMs = 1000;  // for what a failed item left on the device

// What an item that needs it has to do without; nothing when all is there.
std::optional<std::string> missing(const Subject& s, Needs needs) {
  if (needs >= Needs::kBundle && s.is_stuck) return "the device does not answer any more";
  if (needs >= Needs::kBundle && s.bundle == nullptr) return "no bundle";
  if (needs >= Needs::kDevice && !s.is_trusted) return "the bundle is not trusted";
  if (needs >= Needs::kDevice && s.device == nullptr) return "no device";
  if (needs >= Needs::kDevice && !s.is_on_target) return "the device is not the bundle's target";
  if (needs >= Needs::kLoaded && s.loaded == nullptr) return "nothing is loaded";
  if (needs >= Needs::kCompile && s.programs == nullptr) return "the kernels do not compile here";
  return std::nullopt;
}

ItemResult run_item(Subject& s, const Item& item) {
  ItemResult out{.name = item.name, .reason = item.reason};
  if (const auto lack = missing(s, item.needs)) {
    out.outcome = not_run("not run: " + *lack);
    return out;
  }
  const int64_t start = now_ns();
  out.outcome = item.run(s);
  out.took_ns = now_ns() - start;
  // A device that does not come to rest hangs: every further item would wait its full time for it.
  if (out.outcome.verdict == Verdict::kFailed && s.device != nullptr)
    s.is_stuck = !s.device->synchronize(Deadline::in_ms(kRestMs)).ok();
  return out;
}

// Models in the order of the configuration, each followed by its fallback.
std::vector<std::pair<std::string, daemon::ModelConfig>> models_of(const daemon::Config& config) {
  std::vector<std::pair<std::string, daemon::ModelConfig>> out;
  for (const daemon::ModelConfig& model : config.models) {
    out.emplace_back(model.name, model);
    if (model.fallback_bundle.empty()) continue;
    daemon::ModelConfig fallback = model;
    fallback.bundle = model.fallback_bundle;
    fallback.device = model.fallback_device;
    out.emplace_back(model.name + " fallback", std::move(fallback));
  }
  return out;
}

SubjectResult result_of(Subject& s, std::vector<ItemResult> rows) {
  return {s.name, std::move(s.identity), s.times, std::move(rows)};
}

SubjectResult run_host(const World& world,
                       const daemon::Config& config,
                       Suite suite,
                       const ProgressText& progress) {
  Subject host(world, config);
  return result_of(host, run_items(host, items(), suite, progress));
}

}  // namespace

Counts SuiteResult::counts() const {
  Counts out;
  for (const SubjectResult& subject : subjects) {
    for (const ItemResult& item : subject.items) {
      const Verdict v = item.outcome.verdict;
      ++(v == Verdict::kPassed ? out.passed : v == Verdict::kFailed ? out.failed : out.not_run);
    }
  }
  return out;
}

int SuiteResult::exit_code() const {
  constexpr int kExitBadInput = 78;
  bool is_bad_input = false;
  for (const SubjectResult& subject : subjects) {
    for (const ItemResult& item : subject.items) is_bad_input |= item.outcome.is_bad_input;
  }
  const Counts n = counts();
  if (n.failed == 0 && n.not_run == 0 && n.passed > 0) return 0;
  return is_bad_input ? kExitBadInput : 1;
}

std::vector<ItemResult> run_items(Subject& s,
                                  std::span<const Item> table,
                                  Suite suite,
                                  const ProgressText& progress) {
  std::vector<ItemResult> out;
  const bool is_host = s.name.empty();
  for (const Item& item : table) {
    if (!item.is_in(suite) || (item.needs == Needs::kHost) != is_host) continue;
    if (progress) progress(s.name, item.name);
    out.push_back(run_item(s, item));
  }
  return out;
}

SuiteResult run_suite(const World& world,
                      const daemon::Config& config,
                      Suite suite,
                      const ProgressText& progress) {
  SuiteResult out{.suite = suite, .config_path = config.path};
  const int64_t start = now_ns();
  out.subjects.push_back(run_host(world, config, suite, progress));
  for (auto& [name, model] : models_of(config)) {
    Subject s(world, config);
    s.name = name;
    s.model = std::move(model);
    // Only compiling needs it: without a place for files those items say so.
    const auto scratch = TempDir::create("modeld-selftest");
    if (scratch.ok()) s.scratch = scratch->path();
    std::vector<ItemResult> rows = run_items(s, items(), suite, progress);
    out.subjects.push_back(result_of(s, std::move(rows)));
  }
  out.took_ns = now_ns() - start;
  return out;
}

}  // namespace modeld::selftest
