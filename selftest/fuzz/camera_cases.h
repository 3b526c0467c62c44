// The families of fuzz_camera: what comes from the camera server and from the worker. Each makes
// one case from the generator, or looks at given bytes; a defect is an index into `defects` or -1.
// Contract: pure functions of their arguments (the source family makes memory files). Threading:
// one thread.
#pragma once

#include <span>

#include "selftest/fuzz/damage.h"

namespace modeld::fuzz {

struct Family {
  std::span<const char* const> defects;
  CaseResult (*run)(Rng& rng, int defect);
  CaseResult (*look)(const Bytes& bytes);
};

const Family& camera_packets();  // handshake, frame, release
const Family& hop_packets();     // setup, hello, failure, buffers
const Family& source_texts();    // source string, .y4m

}  // namespace modeld::fuzz
