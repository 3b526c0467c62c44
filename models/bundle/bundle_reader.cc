#include "models/bundle/bundle_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cinttypes>

#include "hal/base/bytes.h"
#include "hal/base/fs.h"

#include "models/bundle/keys.h"

namespace modeld::bundle {
namespace {

Result<uint64_t> bundle_size(int fd, const std::string& name) {
  struct stat st {};
  if (fstat(fd, &st) != 0)
    return fail_errno(Errc::kIo, strf("bundle %s: cannot stat", name.c_str()), errno);
  if (!S_ISREG(st.st_mode))
    return fail(Errc::kInvalid, strf("bundle %s: not a regular file", name.c_str()));
  const auto size = static_cast<uint64_t>(st.st_size);
  if (size < kHeaderBytes)
    return fail(Errc::kCorrupt, strf("bundle %s: file has %" PRIu64 " bytes, a header needs %zu",
                                     name.c_str(), size, kHeaderBytes));
  if (size > kMaxFileBytes)
    return fail(Errc::kInvalid, strf("bundle %s: file has %" PRIu64 " bytes, limit %" PRIu64,
                                     name.c_str(), size, kMaxFileBytes));
  return size;
}

std::string_view text_at(std::span<const std::byte> section, const TextRange& range) {
  const auto part = section.subspan(range.offset, range.size);
  return {reinterpret_cast<const char*>(part.data()), part.size()};
}

}  // namespace

Result<std::unique_ptr<Bundle>> Bundle::open(const std::string& path, const OpenOptions& options) {
  const std::string name = base_name(path);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.is_open())
    return fail_errno(errno == ENOENT || errno == ENOTDIR ? Errc::kNotFound : Errc::kIo,
                      strf("bundle %s: cannot open %s", name.c_str(), path.c_str()), errno);
  return open_fd(std::move(fd), name, options);
}

Result<std::unique_ptr<Bundle>> Bundle::open_fd(UniqueFd fd,
                                                const std::string& name,
                                                const OpenOptions& options) {
  auto b = std::unique_ptr<Bundle>(new Bundle());
  b->name_ = name;
  b->fd_ = std::move(fd);
  ASSIGN_OR_RETURN(const uint64_t size, bundle_size(b->fd_.get(), name));
  auto mapping = Mapping::map_fd(b->fd_.get(), 0, size, MapMode::kRead);
  if (!mapping.ok()) return fail(std::move(mapping).error().with("bundle " + name));
  b->mapping_ = std::move(*mapping);
  ASSIGN_OR_RETURN(b->header_, decode_header(b->mapping_.bytes(), name));
  const auto manifest =
      b->mapping_.bytes().subspan(b->header_.manifest_offset, b->header_.manifest_bytes);
  if ((options.left_out_rules & kLeaveOutManifestHash) == 0 &&
      blake2b(manifest) != b->header_.manifest_hash)
    return fail(Errc::kCorrupt,
                strf("bundle %s: the manifest does not have the hash of the header", name.c_str()));
  if ((options.left_out_rules & kLeaveOutSignature) == 0) {
    ASSIGN_OR_RETURN(b->signed_by_, check_signature(b->header_, options, name));
  }
  auto decoded = decode_manifest(manifest);
  if (!decoded.ok()) return fail(std::move(decoded).error().with("bundle " + name));
  b->manifest_ = std::move(*decoded);
  RETURN_IF_ERROR(validate(FileView{b->mapping_.bytes(), b->header_}, b->manifest_, name,
                           options.left_out_rules));
  return b;
}

Result<std::string> check_signature(const Header& header,
                                    const OpenOptions& options,
                                    const std::string& name) {
  if (!header.is_signed()) {
    if (options.require_signature)
      return fail(Errc::kInvalid,
                  strf("bundle %s: not signed, and a signature is required", name.c_str()));
    return std::string();
  }
  if (options.keys_dir.empty())
    return fail(Errc::kInvalid,
                strf("bundle %s: signed, but no keys directory is given", name.c_str()));
  auto keys = read_keys(options.keys_dir);
  if (!keys.ok()) {
    // No keys make the bundle invalid: it is not the bundle that was not found.
    if (keys.error().code == Errc::kNotFound) keys.error().code = Errc::kInvalid;
    keys.error().what = "signed, but " + keys.error().what;
    return fail(std::move(keys).error().with("bundle " + name));
  }
  for (const PublicKey& key : *keys)
    if (verify(header.manifest_hash, header.signature, key)) return key.name;
  return fail(Errc::kInvalid,
              strf("bundle %s: signed, but none of the %zu keys in '%s' verifies it", name.c_str(),
                   keys->size(), options.keys_dir.c_str()));
}

std::span<const std::byte> Bundle::section(SectionKind kind) const {
  const SectionRow* s = manifest_.find_section(kind);
  if (s == nullptr) return {};
  return mapping_.bytes().subspan(s->offset, s->size);
}

std::string_view Bundle::ast_text(size_t program) const {
  return text_at(section(SectionKind::kGraph), manifest_.asts[program]);
}

std::string_view Bundle::source(size_t program) const {
  if (manifest_.sources.empty()) return {};
  return text_at(section(SectionKind::kSources), manifest_.sources[program]);
}

std::span<const std::byte> Bundle::image(size_t program) const {
  const exec::Image& image = manifest_.plan.programs[program].image;
  if (image.is_missing()) return {};
  return section(SectionKind::kImages).subspan(image.offset, image.size);
}

std::span<const std::byte> Bundle::golden(const GoldenTensor& tensor) const {
  return section(SectionKind::kGolden).subspan(tensor.offset, tensor.size);
}

exec::Plan Bundle::to_plan(bool copy_images) const {
  exec::Plan plan = manifest_.plan;
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    plan.programs[i].ast_text = ast_text(i);
    plan.programs[i].source = source(i);
    if (!copy_images) continue;
    const auto code = image(i);
    plan.programs[i].image.code.assign(code.begin(), code.end());
  }
  return plan;
}

exec::PlanSources Bundle::sources() const {
  exec::PlanSources out;
  out.weights = section(SectionKind::kWeights);
  if (const SectionRow* images = manifest_.find_section(SectionKind::kImages)) {
    out.program_fd = fd_.get();
    out.program_fd_offset = images->offset;
    out.program_fd_length = images->size;
  }
  return out;
}

const char* bundle_reason(const Error& error) {
  switch (error.code) {
    case Errc::kNotFound:
    case Errc::kIo:
      return "bundle_missing";
    case Errc::kMismatch:
      return "target_mismatch";
    default:
      return "bundle_invalid";
  }
}

}  // namespace modeld::bundle
