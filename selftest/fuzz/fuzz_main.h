// The frame of our fuzzers: seeded cases, one closing line, --self-proof. It knows nothing of what
// is fuzzed. Contract: case i of seed S is the same on every host; a crash prints the seed and the
// case that died; exit 1 on a finding, on less than 20 % of the cases getting past the header, or
// on a deliberate defect that was not found. Threading: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace modeld::fuzz {

// SplitMix64: small, seedable, the same everywhere.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t next();
  uint64_t below(uint64_t n) { return n == 0 ? 0 : next() % n; }  // 0 .. n-1
  bool one_in(uint64_t n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

// A number that breaks things: near 0, near `around`, near powers of two, near the top, or random.
uint64_t nasty(Rng& rng, uint64_t around);

struct CaseResult {
  bool past_header = false;  // the damage was seen by more than the first lines of checks
  bool accepted = false;
  std::string finding;  // not empty: this must not happen
};

struct Fuzzer {
  const char* name;
  // `defect` is an index into `defects`, or -1.
  std::function<CaseResult(Rng& rng, int defect)> run_case;
  std::vector<std::string> defects;     // deliberate defects of --self-proof
  uint64_t self_proof_cases = 200'000;  // limit for each
};

int fuzz_main(int argc, char** argv, const Fuzzer& fuzzer);

}  // namespace modeld::fuzz
