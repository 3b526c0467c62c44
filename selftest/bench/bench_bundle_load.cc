// From a bundle's path to a model that is WARMING: open, verify, load, golden run, dry run. The
// steps are those of the daemon's worker.
#include <fcntl.h>

#include <cstdio>

#include "hal/backends.h"
#include "hal/base/unique_fd.h"

#include "models/bundle/bundle_reader.h"
#include "models/model.h"
#include "models/selftest_cases.h"

#include "selftest/bench/bench_frame.h"

namespace modeld::bench {
namespace {

constexpr double kLimitMs = 1000;

struct Times {
  double open_ms = 0, load_ms = 0, selftest_ms = 0;
  double total_ms() const { return open_ms + load_ms + selftest_ms; }
};

double ms_since(int64_t start) {
  return static_cast<double>(now_ns() - start) / 1e6;
}

// Out of the page cache, as after a boot.
Status forget(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return fail_errno(Errc::kIo, path, errno);
  fdatasync(fd.get());
  posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  return {};
}

Result<Times> load_once(const std::string& path, uint64_t& weight_bytes) {
  Times t;
  int64_t start = now_ns();
  ASSIGN_OR_RETURN(const auto b, bundle::Bundle::open(path));
  t.open_ms = ms_since(start);
  weight_bytes = b->section(bundle::SectionKind::kWeights).size();
  start = now_ns();
  hal::DeviceConfig config;
  config.threads = b->manifest().plan.target.threads;
  ASSIGN_OR_RETURN(const auto device, hal::open_device("cpu", config));
  RETURN_IF_ERROR(bundle::check_target(b->manifest(), device->info(), b->name()));
  const exec::Plan plan = b->to_plan();
  ASSIGN_OR_RETURN(const auto loaded, exec::LoadedPlan::load(plan, *device, b->sources()));
  t.load_ms = ms_since(start);
  start = now_ns();
  const Deadline deadline = Deadline::in_ms(60'000);
  ASSIGN_OR_RETURN(const auto cases,
                   models::run_golden_cases(b->manifest(), b->section(bundle::SectionKind::kGolden),
                                            *loaded, deadline));
  for (const models::CaseResult& r : cases)
    if (!r.has_passed) return fail(Errc::kMismatch, r.name + ": " + r.text);
  RETURN_IF_ERROR(loaded->dry_run(deadline));
  ASSIGN_OR_RETURN(const auto model, models::make_model(b->manifest(), *loaded));
  t.selftest_ms = ms_since(start);
  return t;
}

Status run(const Options& options, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::string path, bundle_to_measure(options, dir));
  const int count = options.count > 0 ? options.count : 5;
  std::vector<double> open, load, selftest, total;
  uint64_t weight_bytes = 0;
  for (int i = 0; i < count; ++i) {
    RETURN_IF_ERROR(forget(path));
    ASSIGN_OR_RETURN(const Times t, load_once(path, weight_bytes));
    open.push_back(t.open_ms);
    load.push_back(t.load_ms);
    selftest.push_back(t.selftest_ms);
    total.push_back(t.total_ms());
  }
  Json out = Json::object();
  out.set("weight_mb", static_cast<double>(weight_bytes) / 1e6);
  out.set("open_verify_ms", stats_json(summarize(open)));
  out.set("load_ms", stats_json(summarize(load)));
  out.set("selftest_ms", stats_json(summarize(selftest)));
  out.set("warming_ms", stats_json(summarize(total)));
  std::printf("%s\n", out.dump().c_str());
  const double median = summarize(total).median;
  std::printf("bench_bundle_load: %.0f MB of weights WARMING in %.0f ms median of %d (%s)\n",
              static_cast<double>(weight_bytes) / 1e6, median, count,
              verdict(median, kLimitMs).c_str());
  return {};
}

}  // namespace
}  // namespace modeld::bench

int main(int argc, char** argv) {
  return modeld::bench::bench_main(argc, argv, "Time from a bundle's path to WARMING", {},
                                   modeld::bench::run);
}
