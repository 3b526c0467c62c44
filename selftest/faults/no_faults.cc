// What the fault switches are in a build without them: constants that the compiler folds away.
// Compiled into the program of fault_switches_test.cc, without MODELD_FAULTS.
#include "hal/base/fault.h"

namespace modeld {
static_assert(!fault::kBuilt);
static_assert(!fault::on("any"));
static_assert(!fault::value("any").has_value());
static_assert(fault::number("any", 7) == 7);
}  // namespace modeld
