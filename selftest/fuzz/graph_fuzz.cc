// graph-fuzz: random programs of tensors through the whole pipeline (schedule, memory plan, code
// generation, compiler, run), held against an eager engine that computes them statement by
// statement. Prints every finding as a small program, and one closing line with its figures; exit 1
// on a finding.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "hal/base/clock.h"

#include "runtime/schedule/lower_sink_to_linear.h"

#include "selftest/fuzz/graph_batch.h"
#include "selftest/fuzz/graph_defects.h"
#include "selftest/fuzz/graph_shrink.h"

namespace modeld::fuzz {
namespace {

constexpr uint64_t kEnoughForShares = 1000;
constexpr uint64_t kMostFindings = 8;  // shown; a broken pipeline fails everywhere

struct Args {
  uint64_t seed = 1, first = 0, count = 2000;
  int64_t only = -1;
  bool interpret = false, self_proof = false;
};

struct Totals {
  uint64_t graphs = 0, findings = 0;
  std::vector<size_t> nodes, kernels;
  uint64_t war = 0, overlap = 0, refusal = 0, devices = 0, variable = 0;
  exec::CompileStats compile;

  void add(const BatchResult& batch) {
    for (const GraphResult& c : batch.cases) {
      ++graphs;
      findings += c.finding ? 1 : 0;
      nodes.push_back(c.facts.nodes);
      kernels.push_back(c.facts.kernels);
      war += c.facts.has_war ? 1 : 0;
      overlap += c.facts.has_overlap ? 1 : 0;
      refusal += c.facts.has_refusal ? 1 : 0;
      devices += c.facts.has_devices ? 1 : 0;
      variable += c.facts.has_variable ? 1 : 0;
    }
    compile.kernels += batch.compile.kernels;
    compile.cold += batch.compile.cold;
    compile.lower_ns += batch.compile.lower_ns;
    compile.compile_ns += batch.compile.compile_ns;
  }
};

size_t median(std::vector<size_t> v) {
  if (v.empty()) return 0;
  std::nth_element(v.begin(), v.begin() + static_cast<int64_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// A share below 5 % says that the generator does not make what it is there for.
bool too_rare(const char* what, uint64_t n, uint64_t graphs) {
  if (n * 20 >= graphs) return false;
  std::printf("FINDING: %s in %" PRIu64 " of %" PRIu64 " graphs, fewer than 5 %%\n", what, n,
              graphs);
  return true;
}

// Figures and the closing line; the number of findings.
uint64_t close(const Totals& t, const Args& args, double seconds) {
  uint64_t findings = t.findings;
  if (args.only < 0 && median(t.nodes) < 6) {
    std::printf("FINDING: median nodes %zu, fewer than 6\n", median(t.nodes));
    ++findings;
  }
  if (t.graphs >= kEnoughForShares) {
    findings += too_rare("a WAR edge", t.war, t.graphs);
    findings += too_rare("an overlapping assign", t.overlap, t.graphs);
    findings += too_rare("a refusal", t.refusal, t.graphs);
    findings += too_rare("several devices", t.devices, t.graphs);
    findings += too_rare("a variable", t.variable, t.graphs);
  }
  const auto share = [&](uint64_t n) {
    return t.graphs == 0 ? 0 : 100.0 * static_cast<double>(n) / static_cast<double>(t.graphs);
  };
  const auto cache = schedule::schedule_cache_stats();
  std::printf("graph-fuzz: seed %" PRIu64
              ", median %zu nodes and %zu kernels; WAR edge %.1f %%, overlapping assign "
              "%.1f %%, refusal %.1f %%, several devices %.1f %%, variable %.1f %%; schedule cache "
              "%" PRId64 " hits, %" PRId64 " misses; %" PRIu64 " kernels, %" PRIu64
              " compiled; %.1f s (lower %.1f, compile %.1f)\n",
              args.seed, median(t.nodes), median(t.kernels), share(t.war), share(t.overlap),
              share(t.refusal), share(t.devices), share(t.variable), cache.hits, cache.misses,
              t.compile.kernels, t.compile.cold, seconds,
              static_cast<double>(t.compile.lower_ns) / 1e9,
              static_cast<double>(t.compile.compile_ns) / 1e9);
  std::printf("%" PRIu64 " graphs, %" PRIu64 " mismatches\n", t.graphs, findings);
  return findings;
}

// The finding of one program alone; the program before it only fills the schedule cache.
Finding run_alone(const Program& p, const exec::SessionOptions& options, bool interpret) {
  return run_batch({0}, {p}, options, interpret).cases[0].finding;
}

void report(const GraphResult& c, const Args& args, const exec::SessionOptions& options) {
  const Program program = numbered_program(args.seed, c.number);
  std::printf("FINDING: %s\n  repeat with --seed %" PRIu64 " --only %" PRIu64 "%s\n  options: %s\n",
              c.finding.text.c_str(), args.seed, c.number, args.interpret ? " --interp" : "",
              print(options).c_str());
  // Without a compiler each try is quick.
  bool interpret = true;
  Finding alone = run_alone(program, options, true);
  if (alone.kind != c.finding.kind) {
    interpret = args.interpret;
    alone = run_alone(program, options, interpret);
  }
  if (alone.kind != c.finding.kind) {
    std::printf("  it does not fail alone, perhaps with --first %" PRIu64 " --count 64\n%s",
                c.number / kBatchSize * kBatchSize, print(program).c_str());
    return;
  }
  const Program small = shrink(program, [&](const Program& p) {
    return run_alone(p, options, interpret).kind == c.finding.kind;
  });
  std::printf("  smallest program (%s): %s\n%s", interpret ? "interpreted" : "compiled",
              run_alone(small, options, interpret).text.c_str(), print(small).c_str());
}

std::vector<uint64_t> numbers_of(const Args& args, uint64_t first) {
  std::vector<uint64_t> numbers;
  if (args.only >= 0) {
    const auto only = static_cast<uint64_t>(args.only);
    if (only % 8 == 7) numbers.push_back(only - 1);
    numbers.push_back(only);
    return numbers;
  }
  const uint64_t end = std::min(first + kBatchSize, args.first + args.count);
  for (uint64_t i = first; i < end; ++i) numbers.push_back(i);
  return numbers;
}

int run_all(const Args& args) {
  const int64_t start = now_ns();
  Totals totals;
  const uint64_t end = args.only >= 0 ? args.first + 1 : args.first + args.count;
  for (uint64_t first = args.first; first < end; first += kBatchSize) {
    const std::vector<uint64_t> numbers = numbers_of(args, first);
    std::vector<Program> programs;
    for (const uint64_t n : numbers) programs.push_back(numbered_program(args.seed, n));
    if (args.only >= 0) std::printf("%s", print(programs.back()).c_str());
    const exec::SessionOptions options = numbered_options(args.seed, numbers[0]);
    const BatchResult batch = run_batch(numbers, programs, options, args.interpret);
    for (const GraphResult& c : batch.cases)
      if (c.finding && totals.findings < kMostFindings) report(c, args, options);
    totals.add(batch);
  }
  const double seconds = static_cast<double>(now_ns() - start) / 1e9;
  return close(totals, args, seconds) == 0 ? 0 : 1;
}

int main_of(int argc, char** argv) {
  Args args;
  CLI::App app("graph-fuzz: random tensor programs against an eager engine");
  app.add_option("--seed", args.seed, "first number of the random sequence");
  app.add_option("--first", args.first, "number of the first program, a multiple of 64");
  app.add_option("--count", args.count, "number of programs");
  app.add_option("--only", args.only, "run this program alone and print it");
  app.add_flag("--interp", args.interpret, "interpret kernels instead of compiling them");
  app.add_flag("--self-proof", args.self_proof, "plant one deliberate defect at a time");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return args.self_proof ? run_self_proof(args.seed) : run_all(args);
}

}  // namespace
}  // namespace modeld::fuzz

int main(int argc, char** argv) {
  return modeld::fuzz::main_of(argc, argv);
}
