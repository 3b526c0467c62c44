// What searches found, on disk: for one kernel and for a whole plan. Keyed by everything that the
// result depends on, so a hit needs neither timing nor compiling.
// Contract: an unreadable, altered or impossible entry is a miss. The same content gives the same
// bytes. Threading: any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hal/base/hash.h"

#include "runtime/codegen/beam_search.h"
#include "runtime/ir/arg.h"

namespace modeld::exec {

// One kernel's result: its own choice is `winner` where that is faster, else the heuristic's.
struct BeamFinding {
  ir::Opts heuristic, winner;
  double heuristic_us = 0, winner_us = 0;  // medians of alternating runs; 0: not timed
  bool is_winner = false;                  // verified, and faster
  std::string note;                        // why there is no winner, for people
};

// What a result depends on besides the kernel.
struct BeamSetting {
  int64_t width = 0;
  codegen::BeamLimits limits;
  std::string codegen;   // options_text
  std::string compiler;  // identity and flags
  std::string device;    // what times were taken on: kind, threads, processor
};

Hash256 beam_key(const BeamSetting& setting, const std::string& what);

class BeamCache {
 public:
  explicit BeamCache(std::string dir) : dir_(std::move(dir)) {}  // "": keeps nothing
  std::optional<std::vector<BeamFinding>> find(const Hash256& key) const;
  void store(const Hash256& key, const std::vector<BeamFinding>& findings) const;
  std::string path(const Hash256& key) const;

 private:
  std::string dir_;
};

}  // namespace modeld::exec
