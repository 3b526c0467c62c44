// A device with one deliberate defect, around a good one: what the items of the self-test must
// find. For tests only. Threading: as hal/device.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "hal/device.h"

namespace modeld::selftest {

enum class DeviceDefect : uint8_t {
  kNeverWaits,      // wait() comes back at once, as done
  kSlow,            // wait() takes 40 ms longer
  kLosesNumbers,    // an upload of one number never arrives
  kDrifts,          // every second download differs in its last bit
  kWrongNumbers,    // downloads have an exponent bit flipped
  kHidesNan,        // downloads show 0 where there is a NaN or an infinity
  kForgetsClosing,  // has the same epoch after it was closed and opened again
};

// On only while the item under test runs: what comes before it must see a good device.
struct DefectSwitch {
  DeviceDefect defect = DeviceDefect::kNeverWaits;
  bool is_on = false;
};

// Opens devices with the defect, for World::open_device; the switch must outlive them.
std::function<Result<std::unique_ptr<hal::Device>>(const std::string& uri,
                                                   const hal::DeviceConfig& config)>
open_with(const DefectSwitch& defect);

}  // namespace modeld::selftest
