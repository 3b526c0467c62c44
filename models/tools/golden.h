// Golden vectors: one seeded run of entry run, every input and output, computed by the reference.
// Contract: depends on the model and the seed only; state inputs are seeded too, so that the state
// path is part of the comparison. Threading: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/bundle/manifest.h"
#include "models/tools/kernel_check.h"
#include "models/tools/tensor_io.h"

namespace modeld::tools {

struct GoldenData {
  bundle::GoldenCase row;
  Bytes bytes;  // what row's offsets point into
};
// Runs `reference` (its plan has m.plan's tables).
Result<GoldenData> make_golden(const bundle::Manifest& m,
                               const KernelSide& reference,
                               uint64_t seed);

struct OutputResult {
  std::string name;
  Comparison comparison;
};
// Runs `subject` on the golden inputs and compares every output of the entry.
Result<std::vector<OutputResult>> check_golden(const bundle::Manifest& m,
                                               const bundle::GoldenCase& row,
                                               std::span<const std::byte> golden,
                                               const KernelSide& subject);

}  // namespace modeld::tools
