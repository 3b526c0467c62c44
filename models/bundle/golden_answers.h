// What the null device answers: the bundle's golden outputs, whatever the inputs are. For
// hal::DeviceConfig::on_null_run. This is not a golden test (models/selftest_cases.h).
// Contract: an entry without a golden case (warps) leaves its outputs alone; addresses are host
// memory, as the null device's are. Threading: the calling device's; the bundle must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "models/bundle/bundle_reader.h"

namespace modeld::bundle {

std::function<void(const std::string& label, std::span<const uint64_t> inputs)> golden_answers(
    const Bundle& bundle);

}  // namespace modeld::bundle
