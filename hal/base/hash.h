// Content hashes: XXH128 for keys in memory (fast, not for trust), BLAKE2b-256 for sections and
// disk keys, SHA-256 for the identity of a model file. Contract: values print as lower-case hex;
// Hash128 prints high half first, as the reference implementation does. Threading: pure functions;
// a Hasher belongs to one thread.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "hal/base/status.h"

namespace modeld {

struct Hash128 {
  uint64_t lo = 0;
  uint64_t hi = 0;
  auto operator<=>(const Hash128&) const = default;
  std::string hex() const;
};
// For unordered containers (whose order must never reach an output).
struct Hash128Hasher {
  size_t operator()(const Hash128& h) const { return static_cast<size_t>(h.lo ^ h.hi); }
};

struct Hash256 {
  std::array<uint8_t, 32> bytes{};
  auto operator<=>(const Hash256&) const = default;
  std::string hex() const;
};
Result<Hash256> parse_hash256(std::string_view hex);

Hash128 xxh128(std::span<const std::byte> data);
Hash128 xxh128(std::string_view text);
// Order-dependent mix, for keys made of several hashes.
Hash128 combine(Hash128 a, Hash128 b);

Hash256 blake2b(std::span<const std::byte> data);
Hash256 blake2b(std::string_view text);
Hash256 sha256(std::span<const std::byte> data);

// BLAKE2b-256 over pieces, for files that are not in memory as a whole.
class Blake2b {
 public:
  Blake2b();
  ~Blake2b();
  Blake2b(const Blake2b&) = delete;
  Blake2b& operator=(const Blake2b&) = delete;
  void update(std::span<const std::byte> data);
  Hash256 finish();  // once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string to_hex(std::span<const uint8_t> bytes);

}  // namespace modeld
