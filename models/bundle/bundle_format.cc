#include "models/bundle/bundle_format.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "hal/base/bytes.h"

namespace modeld::bundle {
namespace {

template <class T>
void put(std::array<std::byte, kHeaderBytes>& to, size_t at, T v) {
  std::memcpy(to.data() + at, &v, sizeof v);
}

template <class T>
T take(std::span<const std::byte> from, size_t at) {
  T v{};
  std::memcpy(&v, from.data() + at, sizeof v);
  return v;
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

Status check_prefix(std::span<const std::byte> file, const std::string& name) {
  if (file.size() < kHeaderBytes)
    return fail(Errc::kCorrupt, strf("bundle %s: file has %zu bytes, a header needs %zu",
                                     name.c_str(), file.size(), kHeaderBytes));
  if (std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0)
    return fail(Errc::kInvalid,
                strf("bundle %s: not a bundle (first bytes %s, expected %s)", name.c_str(),
                     to_hex({reinterpret_cast<const uint8_t*>(file.data()), 8}).c_str(),
                     to_hex(kMagic).c_str()));
  const auto version = take<uint32_t>(file, 8);
  if (version != kFormatVersion)
    return fail(Errc::kInvalid, strf("bundle %s: format version %u, this program reads %u",
                                     name.c_str(), version, kFormatVersion));
  if (!is_zero(file.subspan(12, 4)) || !is_zero(file.subspan(72, kSignatureOffset - 72)))
    return fail(Errc::kCorrupt,
                strf("bundle %s: reserved bytes of the header are not zero", name.c_str()));
  return {};
}

}  // namespace

bool Header::is_signed() const {
  return std::any_of(signature.begin(), signature.end(), [](uint8_t b) { return b != 0; });
}

std::array<std::byte, kHeaderBytes> encode_header(const Header& header) {
  std::array<std::byte, kHeaderBytes> out{};
  std::memcpy(out.data(), kMagic.data(), kMagic.size());
  put(out, 8, header.version);
  put(out, 16, header.file_bytes);
  put(out, 24, header.manifest_offset);
  put(out, 32, header.manifest_bytes);
  put(out, 40, header.manifest_hash.bytes);
  put(out, kSignatureOffset, header.signature);
  return out;
}

Result<Header> decode_header(std::span<const std::byte> file, const std::string& name) {
  RETURN_IF_ERROR(check_prefix(file, name));
  Header h;
  h.version = take<uint32_t>(file, 8);
  h.file_bytes = take<uint64_t>(file, 16);
  h.manifest_offset = take<uint64_t>(file, 24);
  h.manifest_bytes = take<uint64_t>(file, 32);
  h.manifest_hash.bytes = take<std::array<uint8_t, 32>>(file, 40);
  h.signature = take<std::array<uint8_t, kSignatureBytes>>(file, kSignatureOffset);
  if (h.file_bytes != file.size())
    return fail(Errc::kCorrupt, strf("bundle %s: header says %" PRIu64 " bytes, file has %zu",
                                     name.c_str(), h.file_bytes, file.size()));
  if (h.manifest_bytes == 0 || h.manifest_bytes > kMaxManifestBytes)
    return fail(Errc::kCorrupt, strf("bundle %s: manifest of %" PRIu64 " bytes, limit %" PRIu64,
                                     name.c_str(), h.manifest_bytes, kMaxManifestBytes));
  if (h.manifest_offset % kSectionAlign != 0 || h.manifest_offset < kSectionAlign)
    return fail(Errc::kCorrupt, strf("bundle %s: manifest at %" PRIu64 ", not on a page border",
                                     name.c_str(), h.manifest_offset));
  if (!in_bounds(h.manifest_offset, h.manifest_bytes, h.file_bytes) ||
      h.manifest_offset + h.manifest_bytes != h.file_bytes)
    return fail(Errc::kCorrupt,
                strf("bundle %s: manifest at %" PRIu64 " has %" PRIu64 " bytes, file has %" PRIu64,
                     name.c_str(), h.manifest_offset, h.manifest_bytes, h.file_bytes));
  return h;
}

const char* section_name(SectionKind kind) {
  switch (kind) {
    case SectionKind::kWeights:
      return "weights";
    case SectionKind::kImages:
      return "images";
    case SectionKind::kGraph:
      return "graph";
    case SectionKind::kSources:
      return "sources";
    case SectionKind::kGolden:
      return "golden";
    case SectionKind::kTwins:
      return "twins";
  }
  return "?";
}

}  // namespace modeld::bundle
