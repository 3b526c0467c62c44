// Writes a bundle: sorted page-aligned sections, then the manifest, then the header, into a
// temporary file beside the target that gets its name only after the caller's self-check of the
// finished file. This is not a compiler and checks no numbers itself. Contract: same content, same
// bytes (no time, path or host in it); a failed or killed build leaves no bundle and does not touch
// an old one. Threading: pure functions.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "models/bundle/keys.h"
#include "models/bundle/manifest.h"

namespace modeld::bundle {

struct BundleContent {
  // plan: images carry their code (or are missing), ast_text is filled in; sections and text ranges
  // are computed here.
  Manifest manifest;
  std::span<const std::byte> weights;  // empty: manifest.plan.weight_bytes
  std::vector<std::byte> golden;       // what manifest.golden points into
  bool keep_sources = false;           // store ProgramRow::source
};

// Gets the path of the complete temporary file.
using FileCheck = std::function<Status(const std::string& temp_path)>;

struct WrittenBundle {
  uint64_t file_bytes = 0;
  Hash256 manifest_hash;
  Manifest manifest;  // as written
};
Result<WrittenBundle> write_bundle(const std::string& path,
                                   BundleContent content,
                                   const FileCheck& check = {});

// The whole file in memory, for tests and fuzzers.
Result<std::vector<std::byte>> format_bundle(BundleContent content);

// Puts a signature into the header of a valid bundle, replacing the file atomically.
Status sign_bundle(const std::string& path, const SecretKey& key);

}  // namespace modeld::bundle
