// The self-check that ends a build: the finished file is opened again, every distinct kernel runs
// alone against the reference, then one full frame runs against the golden vectors. kFull runs the
// kernels with three seeds. Contract: kMismatch names the first kernel or output that is wrong and
// by how much. Threading: one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/bundle/bundle_reader.h"
#include "models/tools/golden.h"
#include "models/tools/kernel_check.h"

namespace modeld::tools {

struct SelfCheckReport {
  size_t kernels = 0;
  size_t outputs = 0;
  int64_t total_ns = 0;
  Comparison worst_output;
};

// A device that executes here what was built for `target`: this host's CPU, or another CPU's
// emulator where it is installed; null when there is none.
Result<std::unique_ptr<hal::Device>> open_check_device(const hal::Target& target);
// Why there is none: "no device amd:gfx1100 on this host", "this host lacks sse4a".
std::string why_no_check_device(const hal::Target& target);

Result<SelfCheckReport> self_check(const std::string& bundle_path,
                                   bundle::SelfCheck kind,
                                   hal::Device& device,
                                   const exec::Plan& reference);

}  // namespace modeld::tools
