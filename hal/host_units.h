// A tiny numeric test of the CPU's matrix units: one step of each on fixed numbers against plain
// arithmetic. A CPU (or an emulator, or a hypervisor's idea of one) may declare a unit and get it
// wrong; such a feature counts as absent everywhere: host_cpu_features() leaves it out, so nothing
// is compiled for it and a bundle that needs it is refused by name.
// Threading: any thread; the test runs once per process.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/status.h"

namespace modeld::hal {

struct MatrixUnit {
  const char* feature;  // as in Target::features
  Status (*check)();    // kInternal with the first wrong element; must not run without the feature
};

// The units of this architecture that generated code may use.
std::span<const MatrixUnit> matrix_units();
struct BrokenUnit {
  std::string feature;
  Error why;
};
// Those among `features` (sorted) that fail.
std::vector<BrokenUnit> broken_units(std::span<const MatrixUnit> units,
                                     const std::vector<std::string>& features);
// Of this process's CPU (hal/target.cc).
const std::vector<BrokenUnit>& broken_host_units();
// `features` without the broken ones.
std::vector<std::string> usable_features(std::vector<std::string> features,
                                         std::span<const BrokenUnit> broken);

}  // namespace modeld::hal
