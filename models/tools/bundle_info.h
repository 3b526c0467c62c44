// What `modelc info` shows of a bundle, as JSON and as a table for people. Contract: pure functions
// of the bundle; the same bundle gives the same text (a golden test holds it). Threading: any.
#pragma once

#include <string>
#include <vector>

#include "hal/base/json.h"

#include "models/bundle/bundle_reader.h"

namespace modeld::tools {

Json info_json(const bundle::Bundle& b);
std::string info_text(const bundle::Bundle& b);

// Pieces that the build's report shows too.
std::vector<uint64_t> calls_per_program(const exec::Plan& plan);
std::string launch_text(const exec::ProgramRow& p);           // "2x1x1/1x1x1", groups and local
std::string lane_text(const exec::ArenaRow& arena);           // "0 compute"
std::string over_bound_text(uint64_t bytes, uint64_t bound);  // "+5.9 %"; "" without a bound

}  // namespace modeld::tools
