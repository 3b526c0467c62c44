#include "models/bundle/bundle_writer.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>

#include "hal/base/bytes.h"
#include "hal/base/fs.h"

#include "models/bundle/bundle_reader.h"

namespace modeld::bundle {
namespace {

// A section before it has a place in the file.
struct Piece {
  SectionKind kind;
  std::vector<std::byte> own;
  std::span<const std::byte> bytes;
};

// The whole bundle but for the bulk bytes, which stay where they are.
struct Layout {
  Manifest manifest;
  std::vector<Piece> pieces;
  std::vector<std::byte> manifest_bytes;
  Header header;
};

std::string arg_text(const exec::Entry& e, const exec::ArgRef& a) {
  const auto at = [&] { return a.offset == 0 ? std::string() : strf("+%" PRIu64, a.offset); };
  switch (a.kind) {
    case exec::ArgRef::Kind::kBuffer:
      return strf("b%u", a.index) + at();
    case exec::ArgRef::Kind::kConst:
      return strf("%" PRId64, static_cast<int64_t>(a.offset));
    case exec::ArgRef::Kind::kScalar:
    case exec::ArgRef::Kind::kSlot:
      break;
  }
  for (const auto* list : {&e.inputs, &e.outputs})
    for (const exec::TensorInfo& t : *list)
      if (t.slot == a.index) return t.name + at();
  for (const exec::ScalarInfo& s : e.scalars)
    if (s.slot == a.index) return s.name;
  return strf("slot%u", a.index) + at();
}

void append_entry(std::string& text, const exec::Plan& plan, const exec::Entry& e) {
  text += "entry " + e.name + "\n";
  for (const exec::CallRow& c : e.calls) {
    if (c.kind == exec::CallRow::Kind::kCopy)
      text += strf("copy %" PRIu64, c.copy_bytes);
    else
      text += strf("call %u %s", c.program,
                   c.program < plan.programs.size() ? plan.programs[c.program].name.c_str() : "?");
    for (const exec::ArgRef& a : c.args) text += " " + arg_text(e, a);
    text += "\n";
  }
}

// Section graph: a block per kernel with its AST, then the calls of every entry, for people and
// diffs.
std::string graph_text(const exec::Plan& plan, std::vector<TextRange>& asts) {
  std::string text = "# scheduled kernels before apply_opts, then the calls of each entry\n";
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    const exec::ProgramRow& p = plan.programs[i];
    text += strf("kernel %zu %s %s\n", i, p.name.c_str(), p.key.hex().c_str());
    asts.push_back({text.size(), p.ast_text.size()});
    text += p.ast_text;
    if (!text.ends_with('\n')) text += '\n';
  }
  for (const exec::Entry& e : plan.entries) append_entry(text, plan, e);
  return text;
}

std::string source_text(const exec::Plan& plan, std::vector<TextRange>& sources) {
  std::string text;
  for (const exec::ProgramRow& p : plan.programs) {
    text += strf("// %s %s\n", p.name.c_str(), p.key.hex().c_str());
    sources.push_back({text.size(), p.source.size()});
    text += p.source;
    if (!text.ends_with('\n')) text += '\n';
  }
  return text;
}

Piece own_piece(SectionKind kind, std::vector<std::byte> bytes) {
  Piece piece{kind, std::move(bytes), {}};
  piece.bytes = piece.own;  // a moved vector keeps its storage
  return piece;
}
Piece own_piece(SectionKind kind, const std::string& text) {
  const auto bytes = bytes_of(text);
  return own_piece(kind, std::vector<std::byte>(bytes.begin(), bytes.end()));
}

Status check_content(const BundleContent& content) {
  const exec::Plan& plan = content.manifest.plan;
  if (plan.programs.empty()) return fail(Errc::kInvalid, "bundle without kernels");
  for (const exec::ProgramRow& p : plan.programs)
    if (p.ast_text.empty())
      return fail(Errc::kInvalid, strf("kernel %s has no AST text", p.name.c_str()));
  return {};
}

// Strips from the manifest what lives in sections or differs from build to build.
void strip_bulk(exec::Plan& plan) {
  plan.weight_bytes.clear();
  plan.stats = {};
  plan.arena_uses.clear();
  for (exec::ProgramRow& p : plan.programs) {
    p.ast_text.clear();
    p.source.clear();
    p.image.code.clear();
    p.image.code.shrink_to_fit();
  }
}

Result<Layout> make_layout(BundleContent& content) {
  RETURN_IF_ERROR(check_content(content));
  Layout out;
  Manifest& m = content.manifest;
  m.format_version = kFormatVersion;
  m.sections.clear();
  m.asts.clear();
  m.sources.clear();
  if (!content.weights.empty())
    out.pieces.push_back(Piece{SectionKind::kWeights, {}, content.weights});
  else if (!m.plan.weight_bytes.empty())
    out.pieces.push_back(own_piece(SectionKind::kWeights, std::move(m.plan.weight_bytes)));
  ASSIGN_OR_RETURN(auto images, exec::pack_images(m.plan));
  if (!images.empty()) out.pieces.push_back(own_piece(SectionKind::kImages, std::move(images)));
  out.pieces.push_back(own_piece(SectionKind::kGraph, graph_text(m.plan, m.asts)));
  if (content.keep_sources)
    out.pieces.push_back(own_piece(SectionKind::kSources, source_text(m.plan, m.sources)));
  if (!content.golden.empty())
    out.pieces.push_back(Piece{SectionKind::kGolden, {}, content.golden});

  uint64_t end = kHeaderBytes;
  for (const Piece& piece : out.pieces) {
    const uint64_t offset = align_up(end, kSectionAlign);
    m.sections.push_back({piece.kind, offset, piece.bytes.size(), blake2b(piece.bytes)});
    end = offset + piece.bytes.size();
  }
  strip_bulk(m.plan);
  out.manifest = std::move(m);
  ASSIGN_OR_RETURN(out.manifest_bytes, encode_manifest(out.manifest));
  out.header.manifest_offset = align_up(end, kSectionAlign);
  out.header.manifest_bytes = out.manifest_bytes.size();
  out.header.manifest_hash = blake2b(out.manifest_bytes);
  out.header.file_bytes = out.header.manifest_offset + out.header.manifest_bytes;
  return out;
}

// Calls put(bytes) for consecutive parts of the file.
template <class Put>
Status emit(const Layout& layout, Put put) {
  static constexpr std::array<std::byte, kSectionAlign> kZeroes{};
  const auto header = encode_header(layout.header);
  RETURN_IF_ERROR(put(std::span<const std::byte>(header)));
  uint64_t at = header.size();
  const auto put_at = [&](uint64_t offset, std::span<const std::byte> bytes) -> Status {
    RETURN_IF_ERROR(put(std::span(kZeroes).first(offset - at)));
    at = offset + bytes.size();
    return put(bytes);
  };
  for (size_t i = 0; i < layout.pieces.size(); ++i)
    RETURN_IF_ERROR(put_at(layout.manifest.sections[i].offset, layout.pieces[i].bytes));
  return put_at(layout.header.manifest_offset, layout.manifest_bytes);
}

}  // namespace

Result<WrittenBundle> write_bundle(const std::string& path,
                                   BundleContent content,
                                   const FileCheck& check) {
  ASSIGN_OR_RETURN(Layout layout, make_layout(content));
  ASSIGN_OR_RETURN(auto file, AtomicFile::create(path));
  RETURN_IF_ERROR(emit(layout, [&](std::span<const std::byte> b) { return file.write(b); }));
  if (fsync(file.fd()) != 0) return fail_errno(Errc::kIo, "cannot sync " + file.temp_path(), errno);
  if (check) RETURN_IF_ERROR(check(file.temp_path()));
  RETURN_IF_ERROR(file.commit());
  return WrittenBundle{layout.header.file_bytes, layout.header.manifest_hash,
                       std::move(layout.manifest)};
}

Result<std::vector<std::byte>> format_bundle(BundleContent content) {
  ASSIGN_OR_RETURN(const Layout layout, make_layout(content));
  std::vector<std::byte> out;
  out.reserve(layout.header.file_bytes);
  RETURN_IF_ERROR(emit(layout, [&](std::span<const std::byte> b) -> Status {
    out.insert(out.end(), b.begin(), b.end());
    return {};
  }));
  return out;
}

Status sign_bundle(const std::string& path, const SecretKey& key) {
  ASSIGN_OR_RETURN(auto bytes, read_file(path, kMaxFileBytes));
  ASSIGN_OR_RETURN(Header header, decode_header(bytes, base_name(path)));
  // Only a bundle that would load is worth a signature: an old one must not be in the way of that.
  std::fill_n(bytes.begin() + kSignatureOffset, kSignatureBytes, std::byte{0});
  ASSIGN_OR_RETURN(UniqueFd unsigned_fd, sealed_memfd("unsigned-bundle", bytes));
  RETURN_IF_ERROR(Bundle::open_fd(std::move(unsigned_fd), base_name(path)));
  ASSIGN_OR_RETURN(header.signature, sign(header.manifest_hash, key));
  const auto encoded = encode_header(header);
  std::copy(encoded.begin(), encoded.end(), bytes.begin());
  return write_file_atomic(path, bytes);
}

}  // namespace modeld::bundle
