// The bytes of a bundle file: one fixed header, page-aligned sections, the manifest at the end.
// This is not the meaning of the sections (models/bundle/manifest.h) and not their parsing
// (bundle_reader). Contract: the sections tile the file: the first starts at kPageBytes, each next
// one at the first page border after the end of its predecessor, the manifest after the last one,
// and the file ends with the manifest. Everything between is zero, so that no byte of a bundle is
// unchecked. Little endian. Units: bytes. Threading: plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "hal/base/hash.h"
#include "hal/base/mapping.h"
#include "hal/base/status.h"

namespace modeld::bundle {

// A byte above 127, a line end and a NUL-like byte: a text-mode copy of the file no longer matches.
constexpr std::array<uint8_t, 8> kMagic = {0x8d, 'M', 'O', 'D', 'L', '\r', '\n', 0x1a};
constexpr uint32_t kFormatVersion = 1;
constexpr uint64_t kSectionAlign = kPageBytes;
constexpr uint64_t kImageAlign = 64;   // of each program image inside its section
constexpr uint64_t kWeightAlign = 64;  // of each constant inside the weights section
constexpr uint64_t kMaxFileBytes = uint64_t{16} << 30;
constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 20;
constexpr size_t kSignatureBytes = 64;

struct Header {
  uint32_t version = kFormatVersion;
  uint64_t file_bytes = 0;
  uint64_t manifest_offset = 0;
  uint64_t manifest_bytes = 0;
  Hash256 manifest_hash;  // BLAKE2b-256 of the manifest's bytes
  std::array<uint8_t, kSignatureBytes> signature =
      {};  // Ed25519 over manifest_hash; zero: unsigned

  bool is_signed() const;
};

// Layout of the header: magic 0..7, version 8..11, zero 12..15, file size 16, manifest offset 24,
// manifest size 32, manifest hash 40..71, zero 72..191, signature 192..255.
constexpr size_t kHeaderBytes = 256;
constexpr size_t kSignatureOffset = kHeaderBytes - kSignatureBytes;

std::array<std::byte, kHeaderBytes> encode_header(const Header& header);
// Checks everything that can be checked against the real size of the file: magic, version, sizes,
// bounds, zero bytes. `name` stands for the file in messages.
Result<Header> decode_header(std::span<const std::byte> file, const std::string& name);

// Order of the kinds = order in the file.
enum class SectionKind : uint8_t {
  kWeights,  // constants, used in place
  kImages,   // program images, mapped read + execute from the file
  kGraph,    // the scheduled LINEAR and each kernel before apply_opts, as text
  kSources,  // optional: rendered source per kernel, as text
  kGolden,   // golden inputs and outputs
  kTwins,    // host twins for qcom:sim
};
constexpr int kSectionKinds = 6;
const char* section_name(SectionKind kind);

}  // namespace modeld::bundle
