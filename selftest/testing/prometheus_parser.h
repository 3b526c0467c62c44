// A strict reader of the Prometheus exposition format 0.0.4, for tests of what the daemon writes.
// Stricter than scrapers are: every family has HELP and TYPE before its samples, its samples stand
// together, no sample comes twice, histograms are cumulative with +Inf equal to _count, counters
// end in _total, are finite and not negative. Contract: the error names the line. Threading: plain
// values.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "hal/base/status.h"

namespace modeld::testing_prometheus {

struct Family {
  std::string type;
  std::string help;
  // By the sample's name with its labels, unescaped and sorted: "a_bucket{le=0.1,model=road}".
  std::map<std::string, double> samples;
};
using Families = std::map<std::string, Family>;

Result<Families> parse(std::string_view text);

// The first counter or histogram count of `before` that is smaller or gone in `after`; "" if none.
std::string first_fallen(const Families& before, const Families& after);

}  // namespace modeld::testing_prometheus
