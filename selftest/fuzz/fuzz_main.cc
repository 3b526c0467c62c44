#include "selftest/fuzz/fuzz_main.h"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "hal/base/clock.h"

namespace modeld::fuzz {
namespace {

struct Args {
  uint64_t seed = 1;
  uint64_t first = 0;
  uint64_t count = 0;
  double seconds = 0;
  bool self_proof = false;
};

struct Totals {
  uint64_t cases = 0, past_header = 0, accepted = 0, findings = 0;
};

// Read by the crash handler; volatile so that the store is not delayed past the case.
volatile uint64_t g_seed = 0;
volatile uint64_t g_case = 0;

void put_number(uint64_t n) {
  char digits[20];
  size_t used = 0;
  do {
    digits[sizeof digits - ++used] = static_cast<char>('0' + n % 10);
    n /= 10;
  } while (n != 0);
  (void)!write(STDERR_FILENO, digits + sizeof digits - used, used);
}
void put_text(const char* text) {
  (void)!write(STDERR_FILENO, text, strlen(text));
}

// Only async-signal-safe calls: says which case died, then dies of the same signal.
void on_crash(int sig) {
  put_text("FINDING crash: repeat with --seed ");
  put_number(g_seed);
  put_text(" --first ");
  put_number(g_case);
  put_text(" --count 1\n");
  signal(sig, SIG_DFL);
  raise(sig);
}

Rng case_rng(uint64_t seed, uint64_t index) {
  Rng mix(seed);
  return Rng(mix.next() ^ (index * 0x9e3779b97f4a7c15u));
}

CaseResult run_one(const Fuzzer& fuzzer, uint64_t seed, uint64_t index, int defect) {
  g_seed = seed;
  g_case = index;
  Rng rng = case_rng(seed, index);
  return fuzzer.run_case(rng, defect);
}

int run_self_proof(const Fuzzer& fuzzer, uint64_t seed) {
  size_t found = 0;
  for (size_t d = 0; d < fuzzer.defects.size(); ++d) {
    uint64_t i = 0;
    std::string finding;
    for (; i < fuzzer.self_proof_cases && finding.empty(); ++i)
      finding = run_one(fuzzer, seed, i, static_cast<int>(d)).finding;
    found += finding.empty() ? 0 : 1;
    std::printf("%s: defect %s: %s (%" PRIu64 " cases)%s%s\n", fuzzer.name,
                fuzzer.defects[d].c_str(), finding.empty() ? "NOT FOUND" : "found", i,
                finding.empty() ? "" : ": ", finding.c_str());
  }
  std::printf("%s: self-proof: %zu of %zu deliberate defects found\n", fuzzer.name, found,
              fuzzer.defects.size());
  return found == fuzzer.defects.size() ? 0 : 1;
}

int run_cases(const Fuzzer& fuzzer, const Args& args) {
  const int64_t start = now_ns();
  const auto limit_ns = static_cast<int64_t>(args.seconds * 1e9);
  const auto seconds_since = [&] { return static_cast<double>(now_ns() - start) / 1e9; };
  Totals t;
  for (uint64_t i = 0; args.count == 0 || i < args.count; ++i) {
    if (limit_ns > 0 && now_ns() - start >= limit_ns) break;
    const CaseResult r = run_one(fuzzer, args.seed, args.first + i, -1);
    ++t.cases;
    t.past_header += r.past_header ? 1 : 0;
    t.accepted += r.accepted ? 1 : 0;
    if (r.finding.empty()) continue;
    ++t.findings;
    std::printf("FINDING --seed %" PRIu64 " --first %" PRIu64 " --count 1: %s\n", args.seed,
                args.first + i, r.finding.c_str());
  }
  const double share =
      t.cases == 0 ? 0 : 100.0 * static_cast<double>(t.past_header) / static_cast<double>(t.cases);
  // A single repeated case says nothing about the share.
  const bool too_shallow = share < 20 && t.cases >= 100;
  std::printf("%s: seed %" PRIu64 ", %" PRIu64
              " cases in %.1f s, %.1f %% past the header%s, %" PRIu64 " accepted, %" PRIu64
              " findings\n",
              fuzzer.name, args.seed, t.cases, seconds_since(), share,
              too_shallow ? " (FINDING: below 20 %)" : "", t.accepted, t.findings);
  return t.findings == 0 && !too_shallow && t.cases > 0 ? 0 : 1;
}

}  // namespace

uint64_t Rng::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t nasty(Rng& rng, uint64_t around) {
  switch (rng.below(8)) {
    case 0:
      return rng.below(4);
    case 1:
      return around + rng.below(3) - 1;
    case 2:
      return around + (rng.below(64) << 6);
    case 3:
      return (uint64_t{1} << rng.below(64)) + rng.below(3) - 1;
    case 4:
      return ~uint64_t{0} - rng.below(5000);
    case 5:
      return around == 0 ? 0 : around / (1 + rng.below(4));
    case 6:
      return around ^ (uint64_t{1} << rng.below(64));
    default:
      return rng.next();
  }
}

int fuzz_main(int argc, char** argv, const Fuzzer& fuzzer) {
  Args args;
  CLI::App app(std::string(fuzzer.name) + ": seeded fuzzer");
  app.add_option("--seed", args.seed, "first number of the random sequence");
  app.add_option("--first", args.first, "index of the first case (to repeat one)");
  app.add_option("--count", args.count, "number of cases (0: no limit)");
  app.add_option("--seconds", args.seconds, "time limit (0: none)");
  app.add_flag("--self-proof", args.self_proof, "switch on one deliberate defect at a time");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  for (const int sig : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) signal(sig, on_crash);
  if (args.self_proof) return run_self_proof(fuzzer, args.seed);
  if (args.count == 0 && args.seconds <= 0) args.seconds = 10;
  return run_cases(fuzzer, args);
}

}  // namespace modeld::fuzz
