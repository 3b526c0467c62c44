#include "models/bundle/keys.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "hal/base/bytes.h"
#include "hal/base/fs.h"
#include "hal/base/text.h"

namespace modeld::bundle {
namespace {

constexpr std::string_view kSecretWord = "modeld-ed25519-secret";
constexpr std::string_view kPublicWord = "modeld-ed25519-public";
constexpr uint64_t kKeyFileLimit = 4096;

static_assert(crypto_sign_BYTES == kSignatureBytes);
static_assert(crypto_sign_SECRETKEYBYTES == 64 && crypto_sign_PUBLICKEYBYTES == 32);

Status start_sodium() {
  if (sodium_init() < 0) return fail(Errc::kInternal, "libsodium does not start");
  return {};
}

std::string key_line(std::string_view word, std::span<const uint8_t> bytes) {
  return std::string(word) + " " + to_hex(bytes) + "\n";
}

// "WORD HEX\n" -> exactly out.size() bytes.
Status parse_key(const std::string& path, std::string_view word, std::span<uint8_t> out) {
  auto text = read_text(path, kKeyFileLimit);
  if (!text.ok()) return fail(std::move(text).error().with("key " + path));
  const std::string_view line = trim(*text);
  if (line.size() != word.size() + 1 + 2 * out.size() || !line.starts_with(word) ||
      line[word.size()] != ' ')
    return fail(Errc::kInvalid, strf("key %s: expected one line \"%s\" and %zu hex digits",
                                     path.c_str(), std::string(word).c_str(), 2 * out.size()));
  const std::string_view hex = line.substr(word.size() + 1);
  size_t used = 0;
  const char* end = nullptr;
  if (sodium_hex2bin(out.data(), out.size(), hex.data(), hex.size(), nullptr, &used, &end) != 0 ||
      used != out.size() || end != hex.data() + hex.size())
    return fail(Errc::kInvalid, strf("key %s: not %zu hex digits", path.c_str(), 2 * out.size()));
  return {};
}

}  // namespace

PublicKey SecretKey::public_key() const {
  PublicKey key;
  std::copy(bytes.begin() + 32, bytes.end(), key.bytes.begin());
  return key;
}

Result<SecretKey> make_key() {
  RETURN_IF_ERROR(start_sodium());
  SecretKey key;
  std::array<uint8_t, 32> pub{};
  if (crypto_sign_keypair(pub.data(), key.bytes.data()) != 0)
    return fail(Errc::kInternal, "libsodium made no key pair");
  return key;
}

Status write_key(const std::string& path, const SecretKey& key) {
  const std::string pub_path = path + ".pub";
  for (const std::string& p : {path, pub_path})
    if (file_exists(p))
      return fail(Errc::kInvalid, strf("key %s exists already; remove it first", p.c_str()));
  RETURN_IF_ERROR(write_text_atomic(path, key_line(kSecretWord, key.bytes), 0600));
  return write_text_atomic(pub_path, key_line(kPublicWord, key.public_key().bytes), 0644);
}

Result<SecretKey> read_secret_key(const std::string& path) {
  RETURN_IF_ERROR(start_sodium());
  SecretKey key;
  RETURN_IF_ERROR(parse_key(path, kSecretWord, key.bytes));
  // The second half must belong to the first: signing with a mixed key would leak the secret.
  std::array<uint8_t, 32> seed{}, pub{};
  std::array<uint8_t, 64> again{};
  std::copy_n(key.bytes.begin(), 32, seed.begin());
  if (crypto_sign_seed_keypair(pub.data(), again.data(), seed.data()) != 0 || again != key.bytes)
    return fail(Errc::kInvalid,
                strf("key %s: its two halves do not belong together", path.c_str()));
  return key;
}

Result<PublicKey> read_public_key(const std::string& path) {
  RETURN_IF_ERROR(start_sodium());
  PublicKey key;
  RETURN_IF_ERROR(parse_key(path, kPublicWord, key.bytes));
  key.name = base_name(path);
  if (key.name.ends_with(".pub")) key.name.resize(key.name.size() - 4);
  return key;
}

Result<std::vector<PublicKey>> read_keys(const std::string& dir) {
  const auto names = list_dir(dir);
  if (!names.ok())
    return fail_errno(names.error().code, "keys directory " + dir, names.error().sys);
  std::vector<PublicKey> keys;
  for (const std::string& name : *names) {
    if (!name.ends_with(".pub") || name.starts_with('.')) continue;
    ASSIGN_OR_RETURN(auto key, read_public_key(join_path(dir, name)));
    keys.push_back(std::move(key));
  }
  if (keys.empty())
    return fail(Errc::kNotFound, strf("keys directory %s: holds no *.pub", dir.c_str()));
  return keys;
}

Result<Signature> sign(const Hash256& hash, const SecretKey& key) {
  RETURN_IF_ERROR(start_sodium());
  Signature out{};
  if (crypto_sign_detached(out.data(), nullptr, hash.bytes.data(), hash.bytes.size(),
                           key.bytes.data()) != 0)
    return fail(Errc::kInternal, "libsodium did not sign");
  return out;
}

bool verify(const Hash256& hash, const Signature& signature, const PublicKey& key) {
  if (sodium_init() < 0) return false;
  return crypto_sign_verify_detached(signature.data(), hash.bytes.data(), hash.bytes.size(),
                                     key.bytes.data()) == 0;
}

}  // namespace modeld::bundle
