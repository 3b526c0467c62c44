// The deliberate defect that the self-proof asked this program for: MODELD_FAULT=defect=NAME. Only
// in the *_defect_probe programs, whose functions the linker wraps; modeld and modelctl know
// nothing of it. Threading: any.
#pragma once

#include <string_view>

#include "hal/base/fault.h"

namespace modeld::faults {

inline bool has_defect(std::string_view name) {
  return fault::value("defect").value_or("") == name;
}

}  // namespace modeld::faults
