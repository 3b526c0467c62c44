// beam_search: the opts of one kernel found by trying: every legal next opt of the best few lists
// is compiled and timed, round by round, until nothing gets faster (pipeline hand-book 6.6). It is
// the search alone: compiling and running are given as functions, so it opens no device and no
// compiler, and tests drive it with made-up times. Contract: only lists that Scheduler::apply_opt
// took are compiled; a candidate that does not compile, is too large or repeats the bytes of an
// earlier one is never timed, one that cannot be timed is never chosen. The order of candidates,
// and so the result for given times, is fixed. Units: microseconds. Threading: one thread per
// Graph; hooks are called on it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/codegen/scheduler.h"

namespace modeld::codegen {

// Defaults are the reference's (pipeline hand-book, appendix C: BEAM_*).
struct BeamLimits {
  int64_t instructions = 3000;    // a program of this many or more is dropped
  int64_t upcast = 256;           // product of UPCAST and UNROLL sizes
  int64_t local = 1024;           // product of WARP, LOCAL and GROUP_REDUCE sizes
  double min_progress_us = 0.01;  // a round that gains less is the last
  double stop_ratio = 3;          // a first run this many times the best: no further run
  double ops_ratio = 1000;        // this many times the smallest operation count of the round
  bool pad_to = false;            // try PADTO
  int runs = 3;                   // per candidate
  int max_rounds = 32;            // every round adds one opt to each list
};

struct BeamProgram {
  std::string bytes;         // equal bytes = equal program
  int64_t instructions = 0;  // of the linear program
  int64_t ops = 0;           // arithmetic and moved bytes, all loops
};

struct BeamHooks {
  // One program per list, in order; nullopt where there is none (error, time limit).
  std::function<std::vector<std::optional<BeamProgram>>(std::span<const ir::Opts>)> compile;
  // One run of candidate `index` of the list given to compile() last; nullopt: it failed.
  std::function<std::optional<double>(size_t index)> run_us;
  // After every timed candidate: of how many in this round. May be empty.
  std::function<void(size_t done, size_t total)> progress;
};

struct BeamResult {
  ir::Opts opts;
  double us = 0;  // infinite when no candidate could be timed: `opts` is then the start's
  // What became of the candidates of all rounds.
  uint64_t tried = 0, compiled = 0, repeated = 0, dropped = 0, timed = 0;
  int rounds = 0;
};

// Every action a round may add, in order; which of them are legal is the Scheduler's.
std::vector<ir::Opt> beam_actions(const RendererCaps& caps, const BeamLimits& limits);
// `start` with one action more, for each that is legal and within the limits, in that order. An
// action that names an axis' whole size is left to its 0 form where there is one.
std::vector<Scheduler> beam_candidates(const Scheduler& start, const BeamLimits& limits);

// Median; of an even count the lower middle. With three runs or more whose spread is over half of
// the median, `again` is asked for two more first: one disturbed run does not decide.
// Ends early (with what it has) once the first run is over stop_us.
std::optional<double> guarded_time(int runs,
                                   double stop_us,
                                   const std::function<std::optional<double>()>& run_us);

// `seeds`: lists that join the candidates of the first round where they are legal, such as the
// prefixes of a rule's choice; later rounds extend the best of them like any other.
BeamResult beam_search(const Scheduler& start,
                       int64_t width,
                       const BeamLimits& limits,
                       const BeamHooks& hooks,
                       std::span<const ir::Opts> seeds = {});

}  // namespace modeld::codegen
