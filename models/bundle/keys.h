// Ed25519 keys and signatures of bundles. This is not a trust policy: bundle_reader decides what an
// unsigned or unverified bundle means. Contract: a secret key file K is text of one line and has
// mode 0600; its public half is K.pub; a keys directory holds any number of *.pub files, other
// names are ignored. The signed message is the 32 bytes of the manifest hash. Threading: pure
// functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "hal/base/hash.h"
#include "hal/base/status.h"

#include "models/bundle/bundle_format.h"

namespace modeld::bundle {

struct PublicKey {
  std::string name;  // file name without ".pub", for messages
  std::array<uint8_t, 32> bytes = {};
};
struct SecretKey {
  std::array<uint8_t, 64> bytes = {};  // seed and public half, as libsodium keeps them
  PublicKey public_key() const;
};
using Signature = std::array<uint8_t, kSignatureBytes>;

Result<SecretKey> make_key();
// Writes `path` and `path`.pub; refuses to replace an existing file.
Status write_key(const std::string& path, const SecretKey& key);
Result<SecretKey> read_secret_key(const std::string& path);
Result<PublicKey> read_public_key(const std::string& path);
// Sorted by name, at least one. kNotFound when the directory does not exist, is a file or holds
// none; a broken *.pub file is kInvalid.
Result<std::vector<PublicKey>> read_keys(const std::string& dir);

Result<Signature> sign(const Hash256& hash, const SecretKey& key);
bool verify(const Hash256& hash, const Signature& signature, const PublicKey& key);

}  // namespace modeld::bundle
