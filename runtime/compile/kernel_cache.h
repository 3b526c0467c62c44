// KernelCache: finished images by content, in memory and in one directory on disk.
// Contract: the key covers source, compiler identity with flags, contraction and entry name, so a
// hit is what the compiler would make. Entries carry a checksum; an unreadable, short or altered
// one is a miss and is replaced. Entries appear atomically and are never seen half-written, by any
// number of processes; a full or read-only disk only means that nothing is kept. Threading: any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "hal/base/hash.h"

#include "runtime/compile/compiler.h"

namespace modeld::compile {

enum class Origin : uint8_t { kCold, kMemory, kDisk };
const char* origin_name(Origin origin);  // "cold", "memory", "disk"

class KernelCache {
 public:
  // dir "": memory only. The directory is made when the first entry is written.
  explicit KernelCache(std::string dir = {}) : dir_(std::move(dir)) {}

  static Hash256 key_of(const Compiler& compiler, const KernelSource& kernel);

  struct Hit {
    CompiledImage image;
    Origin origin = Origin::kMemory;
  };
  std::optional<Hit> find(const Hash256& key);
  void store(const Hash256& key, const CompiledImage& image);

  std::string entry_path(const Hash256& key) const;  // "" without a directory

 private:
  const std::string dir_;
  std::mutex mutex_;  // guards images_
  std::map<Hash256, CompiledImage> images_;
};

// What a disk entry (entry_file.h) of this cache holds, and its checked reading.
std::vector<std::byte> encode_image(const CompiledImage& image);
Result<CompiledImage> decode_image(std::span<const std::byte> bytes);

}  // namespace modeld::compile
