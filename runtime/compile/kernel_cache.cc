#include "runtime/compile/kernel_cache.h"

#include <bit>
#include <utility>

#include "hal/base/bytes.h"

#include "runtime/compile/entry_file.h"

namespace modeld::compile {

namespace {

constexpr uint32_t kFormat = 0x4b444d03;  // "\3MDK": change it with the payload or the cutting

}  // namespace

const char* origin_name(Origin origin) {
  switch (origin) {
    case Origin::kCold:
      return "cold";
    case Origin::kMemory:
      return "memory";
    case Origin::kDisk:
      return "disk";
  }
  return "?";
}

Hash256 KernelCache::key_of(const Compiler& compiler, const KernelSource& kernel) {
  Blake2b h;
  const auto add = [&](std::string_view text) {
    const uint64_t size = text.size();
    h.update(std::as_bytes(std::span(&size, 1)));
    h.update(bytes_of(text));
  };
  add(compiler.identity());
  add(kernel.no_contract ? "no_contract" : "contract");
  add(kernel.name);
  add(kernel.source);
  return h.finish();
}

std::string KernelCache::entry_path(const Hash256& key) const {
  return compile::entry_path(dir_, "kernels", key);
}

std::optional<KernelCache::Hit> KernelCache::find(const Hash256& key) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = images_.find(key); at != images_.end())
      return Hit{at->second, Origin::kMemory};
  }
  const auto payload = load_entry(entry_path(key), kFormat, key);
  if (!payload) return std::nullopt;
  auto image = decode_image(*payload);
  if (!image.ok()) return std::nullopt;  // of a sealed entry: a bug of whoever wrote it
  const std::lock_guard lock(mutex_);
  images_.insert_or_assign(key, *image);
  return Hit{std::move(*image), Origin::kDisk};
}

void KernelCache::store(const Hash256& key, const CompiledImage& image) {
  {
    const std::lock_guard lock(mutex_);
    images_.insert_or_assign(key, image);
  }
  store_entry(entry_path(key), kFormat, key, encode_image(image));
}

std::vector<std::byte> encode_image(const CompiledImage& image) {
  ByteWriter w;
  w.write(image.entry_offset);
  w.write(image.alignment);
  w.write(uint64_t{image.code.size()});
  w.write_span(image.code);
  return w.take();
}

Result<CompiledImage> decode_image(std::span<const std::byte> bytes) {
  ByteReader r(bytes, "cache entry");
  CompiledImage image;
  ASSIGN_OR_RETURN(image.entry_offset, r.read<uint64_t>());
  ASSIGN_OR_RETURN(image.alignment, r.read<uint64_t>());
  ASSIGN_OR_RETURN(const uint64_t size, r.read<uint64_t>());
  ASSIGN_OR_RETURN(const auto code, r.read_span(size));
  if (!r.at_end() || image.entry_offset >= size || !std::has_single_bit(image.alignment))
    return fail(Errc::kCorrupt, "cache entry: impossible values");
  image.code.assign(code.begin(), code.end());
  return image;
}

}  // namespace modeld::compile
