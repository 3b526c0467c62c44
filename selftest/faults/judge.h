// Runs one row and compares what was seen with what the row expects: state, reason, time, recovery,
// the gate's way out, and every single message. Contract: a verdict names every deviation, what was
// wrong apart from what was only late; nothing here knows how a fault was brought about.
// Threading: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hal/base/json.h"

#include "selftest/faults/row.h"

namespace modeld::faults {

struct Verdict {
  std::string row;
  std::string seen;                   // "UNAVAILABLE(timeout)"
  int64_t seen_ms = -1;               // fault to the first message that says so
  int64_t back_ms = -1;               // to READY
  std::string gate;                   // its decision
  uint64_t gate_frame = 0;            // the last valid frame it used ...
  int64_t gate_frame_ms = 0;          // ... how long before the fault it got it (negative: after)
  int64_t gate_ms = -1;               // first missed frame to its decision
  Json gate_log = Json::array();      // every decision: when, why, which frame it used last
  uint64_t messages = 0;              // looked at, of both models
  uint64_t valid = 0;                 // of them valid
  uint64_t replayed = 0;              // runs that were made again, bit for bit
  std::string skipped;                // why, "" if it ran
  std::string note;                   // a figure of the row's own
  std::vector<std::string> findings;  // what was wrong
  std::vector<std::string> late;      // what was not within its time
  std::vector<std::string> earlier;   // what was late in the tries before this one
  std::string state_text;             // what the state message said
  bool passed() const { return skipped.empty() && findings.empty() && late.empty(); }
  // What is only late may be this machine's doing. What is wrong once is wrong.
  bool may_be_tried_again() const { return findings.empty() && !late.empty(); }
};

// `slack` multiplies every bound.
Verdict run_row(const Row& row, const std::string& defect, int64_t slack);

Json to_json(const Verdict& verdict);
Verdict from_json(const Json& json);

}  // namespace modeld::faults
