// A small, complete, hand-made bundle for tests and fuzzers: every table has rows, every section is
// there. This is not a model: its program images are bytes nobody runs. Contract: deterministic.
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "models/bundle/bundle_writer.h"

namespace modeld::bundle {

// road, target cpu:x86-64-v3; entries run (split input img, state s / next_s, output outputs with
// two slices) and warp/road/1928x1208; two weights, two programs, sources kept, one golden case.
BundleContent sample_content();

// The finished file.
std::vector<std::byte> sample_bundle();

// `bytes` as a new file.
Status write_sample(const std::string& path, std::span<const std::byte> bytes);

}  // namespace modeld::bundle
