#include "hal/base/hash.h"

#include "hal/base/bytes.h"

namespace modeld {
namespace {

// FIPS 180-2 example; the BLAKE2b value is RFC 7693's algorithm with 32 bytes of output; XXH128 as
// its specification.
TEST(Hash, KnownVectors) {
  EXPECT_EQ(sha256(bytes_of("abc")).hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(blake2b("abc").hex(),
            "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
  EXPECT_EQ(xxh128("").hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, PiecesGiveTheSameAsTheWhole) {
  Blake2b pieces;
  pieces.update(bytes_of("a"));
  pieces.update({});
  pieces.update(bytes_of("bc"));
  EXPECT_EQ(pieces.finish(), blake2b("abc"));
}

TEST(Hash, CombineDependsOnOrder) {
  const Hash128 a = xxh128("a"), b = xxh128("b");
  EXPECT_NE(combine(a, b), combine(b, a));
  EXPECT_EQ(combine(a, b), combine(a, b));
}

TEST(Hash, HexIsParsedStrictly) {
  const Hash256 h = blake2b("x");
  EXPECT_EQ(*parse_hash256(h.hex()), h);
  EXPECT_FALSE(parse_hash256(h.hex() + "0").ok());
  EXPECT_FALSE(parse_hash256(h.hex().substr(2)).ok());
  EXPECT_FALSE(parse_hash256(std::string(64, 'g')).ok());
}

}  // namespace
}  // namespace modeld
