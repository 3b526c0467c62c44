// Replay: a recording's frames and vehicle inputs made again and run through warp, history, state
// and model offline; every raw vector must have the bits that the daemon sent. This is not a check
// of numbers against a reference: it shows that live and offline are the same computation.
// Contract: kMismatch at the first difference names frame and index. Threading: one thread.
#pragma once

#include <cstdint>
#include <string>

#include "hal/device.h"

#include "models/bundle/bundle_reader.h"

namespace modeld::tools {

struct ReplayReport {
  uint64_t runs = 0;
  uint64_t numbers = 0;
};
Result<ReplayReport> replay(const bundle::Bundle& b,
                            hal::Device& device,
                            const std::string& recording_path);

}  // namespace modeld::tools
