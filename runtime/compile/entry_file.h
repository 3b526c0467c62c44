// Entries of the disk caches: a sealed record in a file of its own, found by a 256-bit key.
// Contract: an entry carries its key and a checksum; one that is unreadable, cut, altered or of
// another key or format is a miss. Files appear whole or not at all, for any number of writers and
// processes, and a killed writer leaves nothing; a full or read-only disk only means that nothing
// is kept. Threading: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hal/base/hash.h"
#include "hal/base/status.h"

namespace modeld::compile {

// DIR/KIND/ab/cdef...; "" without a directory.
std::string entry_path(const std::string& dir, const std::string& kind, const Hash256& key);

// `format` is a number of the caller's, changed with the payload's meaning.
std::vector<std::byte> seal_entry(uint32_t format,
                                  const Hash256& key,
                                  std::span<const std::byte> payload);
Result<std::vector<std::byte>> open_entry(uint32_t format,
                                          const Hash256& key,
                                          std::span<const std::byte> bytes);

// The payload, or nothing; a bad file is removed, so that a good one can take its place.
std::optional<std::vector<std::byte>> load_entry(const std::string& path,
                                                 uint32_t format,
                                                 const Hash256& key);
void store_entry(const std::string& path,
                 uint32_t format,
                 const Hash256& key,
                 std::span<const std::byte> payload);

}  // namespace modeld::compile
