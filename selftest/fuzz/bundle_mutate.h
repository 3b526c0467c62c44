// Damages a valid bundle: bytes, header fields, section table, manifest words, any field of any
// table; lengths and hashes are repaired afterwards so that the damage gets past the first checks.
// Contract: pure function of the generator's state. Threading: one thread.
#pragma once

#include <cstddef>
#include <vector>

#include "models/bundle/manifest.h"

#include "selftest/fuzz/fuzz_main.h"

namespace modeld::fuzz {

class BundleMutator {
 public:
  explicit BundleMutator(std::vector<std::byte> good);
  std::vector<std::byte> damaged(Rng& rng) const;

 private:
  std::vector<std::byte> good_;
  bundle::Header header_;
  bundle::Manifest manifest_;
};

// One random field of one random table.
void damage_manifest(bundle::Manifest& m, Rng& rng);

}  // namespace modeld::fuzz
