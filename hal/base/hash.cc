#include "hal/base/hash.h"

#include <sodium.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "hal/base/bytes.h"
#include "hal/base/check.h"

namespace modeld {

struct Blake2b::State {
  crypto_generichash_state sodium;
};

std::string to_hex(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const uint8_t b : bytes) {
    out += kDigits[b >> 4];
    out += kDigits[b & 15];
  }
  return out;
}

std::string Hash128::hex() const {
  return strf("%016llx%016llx", static_cast<unsigned long long>(hi),
              static_cast<unsigned long long>(lo));
}

std::string Hash256::hex() const {
  return to_hex(bytes);
}

Result<Hash256> parse_hash256(std::string_view hex) {
  Hash256 out;
  size_t length = 0;
  const char* end = nullptr;
  if (hex.size() != 64 ||
      sodium_hex2bin(out.bytes.data(), out.bytes.size(), hex.data(), hex.size(), nullptr, &length,
                     &end) != 0 ||
      length != out.bytes.size() || end != hex.data() + hex.size())
    return fail(Errc::kInvalid,
                strf("'%.*s' is not a 64-digit hash", static_cast<int>(hex.size()), hex.data()));
  return out;
}

Hash128 xxh128(std::span<const std::byte> data) {
  const XXH128_hash_t h = XXH3_128bits(data.data(), data.size());
  return {h.low64, h.high64};
}

Hash128 xxh128(std::string_view text) {
  return xxh128(bytes_of(text));
}

Hash128 combine(Hash128 a, Hash128 b) {
  const std::array<uint64_t, 4> both{a.lo, a.hi, b.lo, b.hi};
  return xxh128(std::as_bytes(std::span(both)));
}

Hash256 blake2b(std::span<const std::byte> data) {
  Hash256 out;
  const int rc = crypto_generichash(out.bytes.data(), out.bytes.size(),
                                    reinterpret_cast<const unsigned char*>(data.data()),
                                    data.size(), nullptr, 0);
  CHECK(rc == 0);
  return out;
}

Hash256 blake2b(std::string_view text) {
  return blake2b(bytes_of(text));
}

Hash256 sha256(std::span<const std::byte> data) {
  Hash256 out;
  const int rc = crypto_hash_sha256(
      out.bytes.data(), reinterpret_cast<const unsigned char*>(data.data()), data.size());
  CHECK(rc == 0);
  return out;
}

Blake2b::Blake2b() : state_(std::make_unique<State>()) {
  const int rc = crypto_generichash_init(&state_->sodium, nullptr, 0, 32);
  CHECK(rc == 0);
}

Blake2b::~Blake2b() = default;

void Blake2b::update(std::span<const std::byte> data) {
  crypto_generichash_update(&state_->sodium, reinterpret_cast<const unsigned char*>(data.data()),
                            data.size());
}

Hash256 Blake2b::finish() {
  Hash256 out;
  crypto_generichash_final(&state_->sodium, out.bytes.data(), out.bytes.size());
  return out;
}

}  // namespace modeld
