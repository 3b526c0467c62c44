// A row: one promise of the units, and what shows that it is kept. Each starts from Stage::reset().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "selftest/systemd/stage.h"

namespace modeld::systemd_check {

struct Row {
  const char* name;
  const char* promise;
  // What was measured, for the table; an error says what was not as promised.
  Result<std::string> (*check)(Stage& stage);
};

std::vector<Row> unit_rows();     // what the files say
std::vector<Row> start_rows();    // from start to READY, rights
std::vector<Row> failure_rows();  // stopped, crashed, refused

// A deliberate defect, the row that must find it, and a part of what that row says then.
struct Proof {
  const char* name;
  const char* row;
  const char* finding;
  std::optional<Edit> edit;             // of an installed unit
  const char* notify_defect = nullptr;  // of the daemon, see notify_defects.cc
};
std::vector<Proof> proofs();

}  // namespace modeld::systemd_check
