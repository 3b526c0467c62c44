// Numbered random programs, 64 to a batch: a batch shares one Subject, one set of random options
// and one call of the compiler. Contract: program and options of a number are a pure function of
// (seed, number); every eighth program is the one before it with other data and other values of its
// variables, so that the schedule cache has something to hit. Threading: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/exec/session.h"

#include "selftest/fuzz/graph_case.h"
#include "selftest/fuzz/graph_program.h"

namespace modeld::fuzz {

inline constexpr uint64_t kBatchSize = 64;

Program numbered_program(uint64_t seed, uint64_t number);
exec::SessionOptions numbered_options(uint64_t seed, uint64_t number);
std::string print(const exec::SessionOptions& options);  // those that are drawn

struct GraphResult {
  uint64_t number = 0;
  CaseFacts facts;
  Finding finding;
};

struct BatchResult {
  std::vector<GraphResult> cases;
  exec::CompileStats compile;
};

// `saboteur`: for --self-proof, else nullptr.
BatchResult run_batch(const std::vector<uint64_t>& numbers,
                      const std::vector<Program>& programs,
                      const exec::SessionOptions& options,
                      bool interpret,
                      Saboteur* saboteur = nullptr);

}  // namespace modeld::fuzz
