// kernel-fuzz: random kernels with random opts through code generation, on the C path and on our
// own x86 path, optimised and not, each element held against bounds computed by hand. Prints every
// finding as a small kernel, and one closing line with its figures; exit 1 on a finding.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <deque>
#include <future>

#include "hal/base/clock.h"

#include "selftest/fuzz/kernel_crash.h"
#include "selftest/fuzz/kernel_defects.h"
#include "selftest/fuzz/kernel_shrink.h"

namespace modeld::fuzz {
namespace {

constexpr uint64_t kBatchSize = 48;
constexpr uint64_t kEnoughForShares = 500;
constexpr uint64_t kMostFindings = 8;  // shown; broken code generation fails everywhere

struct Args {
  uint64_t seed = 1, first = 0, count = 2000;
  int64_t only = -1;
  size_t jobs = 2;
  std::string path = "all";
  bool self_proof = false, source = false;
};

struct Totals {
  uint64_t kernels = 0, programs = 0, findings = 0, applied = 0, refused = 0;
  uint64_t elements = 0, unknown = 0, opts = 0;

  void add(const TrialResult& r) {
    ++kernels;
    programs += r.kernels;
    findings += r.finding ? 1 : 0;
    applied += r.applied.empty() ? 0 : 1;
    opts += r.applied.size();
    refused += r.refused > 0 ? 1 : 0;
    elements += r.elements;
    unknown += r.unknown;
  }
};

RunOptions run_options(const Args& args) {
  RunOptions o;
  o.seed = args.seed;
  o.show_sources = args.source;
  const auto takes = [&](const char* path) { return args.path == "all" || args.path == path; };
  o.with_c = takes("c");
  o.with_x86 = takes("x86") && host_has_x86_path();
  o.with_gpu = takes("gpu");
  return o;
}

double percent(uint64_t n, uint64_t of) {
  return of == 0 ? 0 : 100.0 * static_cast<double>(n) / static_cast<double>(of);
}

// A share below 5 % says that the generator does not make what it is there for.
uint64_t too_rare(const char* what, uint64_t n, uint64_t of) {
  if (n * 20 >= of) return 0;
  std::printf("FINDING: %s in %" PRIu64 " of %" PRIu64 " kernels, fewer than 5 %%\n", what, n, of);
  return 1;
}

// Figures and the closing line; the number of findings.
uint64_t close(const Totals& t, const Args& args, double seconds) {
  uint64_t findings = t.findings;
  if (t.kernels >= kEnoughForShares) {
    findings += too_rare("applied opts", t.applied, t.kernels);
    findings += too_rare("refused opts", t.refused, t.kernels);
    if (t.unknown * 10 > t.elements) {
      std::printf("FINDING: %.1f %% of the elements cannot be foretold, more than 10 %%\n",
                  percent(t.unknown, t.elements));
      ++findings;
    }
  }
  std::printf("kernel-fuzz: seed %" PRIu64 ", %s; %" PRIu64
              " programs; opts applied in %.1f %% (%.1f each), refused in %.1f %%; %" PRIu64
              " elements, %.2f %% without a bound; %.1f s\n",
              args.seed, args.path.c_str(), t.programs, percent(t.applied, t.kernels),
              t.applied == 0 ? 0 : static_cast<double>(t.opts) / static_cast<double>(t.applied),
              percent(t.refused, t.kernels), t.elements, percent(t.unknown, t.elements), seconds);
  std::printf("%" PRIu64 " kernels, %" PRIu64 " mismatches\n", t.kernels, findings);
  return findings;
}

void report(const KernelTrial& trial, const TrialResult& result, const Args& args) {
  std::printf("FINDING: %s\n  repeat with --seed %" PRIu64 " --only %" PRIu64 "\n  opts: %s\n%s",
              result.finding.text.c_str(), args.seed, trial.number,
              ir::opts_text(result.applied).c_str(), print(trial.recipe).c_str());
  RunOptions o = run_options(args);
  o.show_sources = false;
  // Without a compiler each try is quick.
  const bool is_c = result.finding.text.rfind("C,", 0) == 0;
  if (!is_c) o.with_c = false;
  KernelTrial with_opts = trial;
  if (result.finding.kind != KernelFinding::Kind::kPlan) with_opts.opts = result.applied;
  const auto still_fails = [&](const KernelTrial& t) {
    return run_trials({t}, o)[0].finding.kind == result.finding.kind;
  };
  if (!still_fails(with_opts)) {
    std::printf("  it does not fail alone\n");
    return;
  }
  const KernelTrial small = shrink(with_opts, still_fails);
  std::printf(
      "  smallest kernel: %s\n  opts: %s\n%s", run_trials({small}, o)[0].finding.text.c_str(),
      small.opts ? ir::opts_text(*small.opts).c_str() : "planned", print(small.recipe).c_str());
}

struct Batch {
  std::vector<KernelTrial> trials;
  std::future<std::vector<TrialResult>> results;
};

Batch start_batch(const Args& args, uint64_t first, uint64_t end) {
  Batch b;
  for (uint64_t i = first; i < end; ++i) b.trials.push_back(numbered_trial(args.seed, i));
  b.results = std::async(std::launch::async, [trials = b.trials, o = run_options(args)] {
    return run_trials(trials, o);
  });
  return b;
}

int run_all(const Args& args) {
  const int64_t start = now_ns();
  const uint64_t first = args.only >= 0 ? static_cast<uint64_t>(args.only) : args.first;
  const uint64_t end = args.only >= 0 ? first + 1 : args.first + args.count;
  Totals totals;
  std::deque<Batch> running;
  uint64_t next = first;
  while (next < end || !running.empty()) {
    while (next < end && running.size() < args.jobs) {
      running.push_back(start_batch(args, next, std::min(next + kBatchSize, end)));
      next = std::min(next + kBatchSize, end);
    }
    const std::vector<TrialResult> results = running.front().results.get();
    for (size_t i = 0; i < results.size(); ++i) {
      const KernelTrial& trial = running.front().trials[i];
      if (results[i].finding && totals.findings < kMostFindings) report(trial, results[i], args);
      totals.add(results[i]);
    }
    if (args.only >= 0) std::printf("%s", print(running.front().trials[0].recipe).c_str());
    running.pop_front();
  }
  const double seconds = static_cast<double>(now_ns() - start) / 1e9;
  return close(totals, args, seconds) == 0 ? 0 : 1;
}

int main_of(int argc, char** argv) {
  Args args;
  CLI::App app("kernel-fuzz: random kernels and opts against bounds computed by hand");
  app.add_option("--seed", args.seed, "first number of the random sequence");
  app.add_option("--first", args.first, "number of the first kernel");
  app.add_option("--count", args.count, "number of kernels");
  app.add_option("--only", args.only, "run this kernel alone and print it");
  app.add_option("--jobs", args.jobs, "batches at a time")->check(CLI::Range(1, 64));
  app.add_option("--path", args.path, "c, x86, gpu or all")
      ->check(CLI::IsMember({"c", "x86", "gpu", "all"}));
  app.add_flag("--source", args.source, "with --only: print the programs");
  app.add_flag("--self-proof", args.self_proof, "plant one deliberate defect at a time");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  catch_kernel_crashes(args.seed);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return args.self_proof ? prove_kernel_fuzz(args.seed) : run_all(args);
}

}  // namespace
}  // namespace modeld::fuzz

int main(int argc, char** argv) {
  return modeld::fuzz::main_of(argc, argv);
}
