#include "runtime/compile/image_cut.h"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "hal/base/bytes.h"

#include "runtime/compile/reloc.h"
#include "runtime/compile/x86_immediate.h"

namespace modeld::compile {

namespace {

constexpr uint64_t kBaseAlign = 64;
constexpr uint64_t kMaxImageBytes = uint64_t{64} << 20;
constexpr size_t kMaxChunks = 1u << 16;

template <class T>
Result<T> read_at(std::span<const std::byte> bytes, uint64_t offset) {
  if (!in_bounds(offset, sizeof(T), bytes.size()))
    return fail(Errc::kCorrupt, strf("object: a record at %llu ends past its end (%zu bytes)",
                                     static_cast<unsigned long long>(offset), bytes.size()));
  T out;
  std::memcpy(&out, bytes.data() + offset, sizeof(T));
  return out;
}

Result<std::string_view> name_at(std::span<const std::byte> table, uint64_t offset) {
  if (offset >= table.size()) return fail(Errc::kCorrupt, "object: name outside of its table");
  const auto* text = reinterpret_cast<const char*>(table.data()) + offset;
  const size_t length = strnlen(text, table.size() - offset);
  if (length == table.size() - offset) return fail(Errc::kCorrupt, "object: name without end");
  return std::string_view(text, length);
}

bool is_text(const ElfObject::Section& s) {
  return (s.flags & SHF_EXECINSTR) != 0;
}

// Collects what one function needs and lays it out.
class Cutter {
 public:
  Cutter(const ElfObject& object, std::string_view function)
      : object_(object), function_(function) {}
  Result<CompiledImage> cut();

 private:
  // A piece of the image: a text section, a constant section, or one entry of a merged section.
  struct Chunk {
    uint32_t section;
    uint64_t begin, size, align;
    uint64_t place = 0;
  };
  struct Fixup {
    size_t from, to;      // chunks
    uint64_t offset = 0;  // inside `from`
    int64_t target = 0;   // inside `to`, addend included
    uint32_t type = 0;
  };

  tl::unexpected<Error> refuse(const std::string& why) const {
    return fail(Errc::kCompile, strf("kernel %.*s: %s", static_cast<int>(function_.size()),
                                     function_.data(), why.c_str()));
  }
  Result<uint32_t> find_function() const;
  Result<size_t> add_chunk(uint32_t section, uint64_t begin, uint64_t size, uint64_t align);
  Status follow(size_t chunk);
  Result<Fixup> locate(const ElfObject::Reloc& reloc, uint32_t text_section);
  std::optional<uint64_t> label_of(const ElfObject::Symbol& symbol,
                                   const ElfObject::Reloc& reloc,
                                   uint32_t text_section) const;
  Result<uint64_t> window_of(uint32_t section, uint64_t begin) const;
  Status check_constant(const ElfObject::Section& section, uint32_t index) const;
  Status lay_out();
  Result<CompiledImage> build() const;

  const ElfObject& object_;
  std::string_view function_;
  std::vector<Chunk> chunks_;  // in order of discovery
  std::map<std::pair<uint32_t, uint64_t>, size_t> chunk_index_;
  std::vector<Fixup> fixups_;
  uint64_t size_ = 0, entry_ = 0, alignment_ = kBaseAlign;
};

Result<CompiledImage> Cutter::cut() {
  ASSIGN_OR_RETURN(const uint32_t symbol, find_function());
  const ElfObject::Symbol& fn = object_.symbols()[symbol];
  entry_ = fn.value;
  ASSIGN_OR_RETURN(const size_t first,
                   add_chunk(fn.section, 0, object_.sections()[fn.section].size, kBaseAlign));
  for (size_t i = first; i < chunks_.size(); ++i)  // grows while we walk
    RETURN_IF_ERROR(follow(i));
  RETURN_IF_ERROR(lay_out());
  return build();
}

Result<uint32_t> Cutter::find_function() const {
  for (uint32_t i = 0; i < object_.symbols().size(); ++i) {
    const ElfObject::Symbol& s = object_.symbols()[i];
    if (s.type != STT_FUNC || s.name != function_ || s.section >= object_.sections().size())
      continue;
    const ElfObject::Section& section = object_.sections()[s.section];
    if (!is_text(section)) return refuse("its symbol lies in no text section");
    if (section.name == ".text") return refuse("it has no text section of its own");
    if (s.value >= section.size) return refuse("its symbol lies outside of its section");
    return i;
  }
  return refuse("the object defines no such function");
}

Result<size_t> Cutter::add_chunk(uint32_t section, uint64_t begin, uint64_t size, uint64_t align) {
  const auto [at, is_new] = chunk_index_.try_emplace({section, begin}, chunks_.size());
  if (!is_new) return at->second;
  if (!in_bounds(begin, size, object_.sections()[section].bytes.size()))
    return refuse(strf("section %.*s is too short",
                       static_cast<int>(object_.sections()[section].name.size()),
                       object_.sections()[section].name.data()));
  if (chunks_.size() >= kMaxChunks) return refuse("too many constants");
  chunks_.push_back(Chunk{section, begin, size, align});
  return chunks_.size() - 1;
}

Status Cutter::follow(size_t chunk) {
  const uint32_t section = chunks_[chunk].section;
  if (!is_text(object_.sections()[section])) return {};
  ASSIGN_OR_RETURN(const std::vector<ElfObject::Reloc> relocs, object_.relocs_of(section));
  for (const ElfObject::Reloc& r : relocs) {
    ASSIGN_OR_RETURN(Fixup f, locate(r, section));
    f.from = chunk;
    fixups_.push_back(f);
    alignment_ = std::max(alignment_, reloc_alignment(object_.machine(), r.type));
  }
  return {};
}

Result<Cutter::Fixup> Cutter::locate(const ElfObject::Reloc& r, uint32_t text_section) {
  if (r.symbol >= object_.symbols().size()) return refuse("relocation without symbol");
  const ElfObject::Symbol& s = object_.symbols()[r.symbol];
  const std::string name(s.name);
  if (!reloc_is_known(object_.machine(), r.type))
    return refuse(strf("%s (%u) against %s cannot be resolved",
                       reloc_name(object_.machine(), r.type), r.type, name.c_str()));
  if (s.section == SHN_UNDEF) return refuse(strf("undefined symbol %s", name.c_str()));
  if (s.section >= object_.sections().size())
    return refuse(strf("symbol %s has no section", name.c_str()));
  const ElfObject::Section& section = object_.sections()[s.section];
  uint64_t begin = 0, size = section.size, align = kBaseAlign;
  if (!is_text(section)) {
    RETURN_IF_ERROR(check_constant(section, s.section));
    if (section.name == ".rodata") {
      const auto found = label_of(s, r, text_section);
      if (!found) return refuse("a constant without label");
      begin = *found;
      ASSIGN_OR_RETURN(size, window_of(s.section, begin));
    } else if ((section.flags & SHF_MERGE) != 0) {
      const uint64_t entry = section.entry_size;
      if (!std::has_single_bit(entry) || entry > kBaseAlign)
        return refuse(
            strf("merged constants of %llu bytes", static_cast<unsigned long long>(entry)));
      // AArch64 names section and exact offset; x86-64 addends count from the end of an instruction
      // whose length we do not know, so there only a symbol says which constant is meant.
      const bool by_section = s.type == STT_SECTION;
      if (by_section && object_.machine() == EM_X86_64)
        return refuse("a merged constant without symbol");
      const uint64_t anchor = by_section ? static_cast<uint64_t>(r.addend) : s.value;
      if (anchor >= section.size) return refuse(strf("symbol %s lies outside", name.c_str()));
      begin = anchor / entry * entry;
      size = align = entry;
    }
  }
  ASSIGN_OR_RETURN(const size_t to, add_chunk(s.section, begin, size, align));
  if (s.value > kMaxImageBytes || r.addend > static_cast<int64_t>(kMaxImageBytes) ||
      r.addend < -static_cast<int64_t>(kMaxImageBytes))
    return refuse(strf("symbol %s lies outside", name.c_str()));
  const int64_t target = static_cast<int64_t>(s.value) + r.addend - static_cast<int64_t>(begin);
  return Fixup{0, to, r.offset, target, r.type};
}

// Start of the constant in the shared section .rodata that a relocation means. Constants that no
// merged section fits (64-byte vectors, half precision scalars) lie there, and relocations name the
// section; the labels that -Wa,-L keeps say where each begins.
std::optional<uint64_t> Cutter::label_of(const ElfObject::Symbol& symbol,
                                         const ElfObject::Reloc& r,
                                         uint32_t text_section) const {
  if (symbol.type != STT_SECTION) return symbol.value;
  const auto starts_at = [&](int64_t offset) {
    return std::any_of(object_.symbols().begin(), object_.symbols().end(), [&](const auto& s) {
      return s.section == symbol.section && s.type != STT_SECTION && !s.name.empty() &&
             static_cast<int64_t>(s.value) == offset;
    });
  };
  if (object_.machine() == EM_AARCH64)
    return starts_at(r.addend) ? std::optional(static_cast<uint64_t>(r.addend)) : std::nullopt;
  // x86-64 counts from the end of the instruction: the displacement, and an immediate. Constants
  // may lie one byte apart, so that a label alone does not say which is meant.
  const auto text = object_.sections()[text_section].bytes;
  for (const int64_t immediate : x86_immediate_sizes(text, r.offset))
    if (const int64_t at = r.addend + 4 + immediate; at >= 0 && starts_at(at))
      return static_cast<uint64_t>(at);
  return std::nullopt;
}

// Labels have no size, and the padding behind a constant depends on its neighbour. A window of 64
// bytes, filled up with zeros, holds every constant there is and is the same in every batch.
Result<uint64_t> Cutter::window_of(uint32_t section, uint64_t begin) const {
  const ElfObject::Section& s = object_.sections()[section];
  uint64_t end = s.bytes.size();
  for (const ElfObject::Symbol& symbol : object_.symbols())
    if (symbol.section == section && symbol.value > begin) end = std::min(end, symbol.value);
  if (begin >= end) return refuse("a label behind the constants");
  const auto rest = s.bytes.subspan(begin, end - begin);
  const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
  if (rest.size() > kBaseAlign && !std::all_of(rest.begin() + kBaseAlign, rest.end(), is_zero))
    return refuse("a constant of more than 64 bytes");
  return std::min<uint64_t>(rest.size(), kBaseAlign);
}

Status Cutter::check_constant(const ElfObject::Section& section, uint32_t index) const {
  const std::string name(section.name);
  if ((section.flags & SHF_ALLOC) == 0 || section.type != SHT_PROGBITS ||
      (section.flags & SHF_WRITE) != 0)
    return refuse(strf("section %s is no constant", name.c_str()));
  if ((section.flags & SHF_STRINGS) != 0) return refuse("string constants");
  for (const ElfObject::Section& s : object_.sections())
    if ((s.type == SHT_RELA || s.type == SHT_REL) && s.info == index && s.size > 0 &&
        (section.flags & SHF_MERGE) == 0)
      return refuse(strf("constant %s holds addresses", name.c_str()));
  return {};
}

// Text first (the kernel, then what it calls), constants by falling alignment; ties keep the order
// of first use, which only the function decides.
Status Cutter::lay_out() {
  std::vector<size_t> order(chunks_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const bool text_a = is_text(object_.sections()[chunks_[a].section]);
    const bool text_b = is_text(object_.sections()[chunks_[b].section]);
    if (text_a != text_b) return text_a;
    return !text_a && chunks_[a].align > chunks_[b].align;
  });
  for (const size_t i : order) {
    size_ = align_up(size_, chunks_[i].align);
    chunks_[i].place = size_;
    size_ += is_text(object_.sections()[chunks_[i].section])
                 ? chunks_[i].size
                 : align_up(chunks_[i].size, chunks_[i].align);
    if (size_ > kMaxImageBytes) return refuse("the image is larger than 64 MiB");
  }
  return {};
}

Result<CompiledImage> Cutter::build() const {
  CompiledImage image;
  image.entry_offset = entry_;
  image.alignment = alignment_;
  image.code.assign(size_, std::byte{0});
  for (const Chunk& c : chunks_) {
    const auto bytes = object_.sections()[c.section].bytes.subspan(c.begin, c.size);
    std::copy(bytes.begin(), bytes.end(), image.code.begin() + static_cast<ptrdiff_t>(c.place));
  }
  for (const Fixup& f : fixups_) {
    if (f.offset >= chunks_[f.from].size) return refuse("relocation outside of its section");
    const int64_t target = static_cast<int64_t>(chunks_[f.to].place) + f.target;
    if (Status s = apply_reloc(object_.machine(), f.type, image.code,
                               chunks_[f.from].place + f.offset, target);
        !s.ok())
      return refuse(s.error().what);
  }
  return image;
}

}  // namespace

Result<ElfObject> ElfObject::parse(std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(const auto head, read_at<Elf64_Ehdr>(bytes, 0));
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
      head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_type != ET_REL)
    return fail(Errc::kCorrupt, "object: not a little-endian ELF64 relocatable file");
  if (head.e_machine != EM_X86_64 && head.e_machine != EM_AARCH64)
    return fail(Errc::kUnsupported, strf("object: machine %u", head.e_machine));
  if (head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shstrndx >= head.e_shnum)
    return fail(Errc::kCorrupt, "object: bad section table");
  ElfObject out;
  out.machine_ = head.e_machine;
  RETURN_IF_ERROR(out.parse_sections(bytes, head.e_shoff, head.e_shnum, head.e_shstrndx));
  RETURN_IF_ERROR(out.parse_symbols());
  return out;
}

Status ElfObject::parse_sections(std::span<const std::byte> bytes,
                                 uint64_t offset,
                                 uint16_t count,
                                 uint16_t names) {
  if (!in_bounds(offset, uint64_t{count} * sizeof(Elf64_Shdr), bytes.size()))
    return fail(Errc::kCorrupt, "object: the section table ends past the end");
  std::vector<uint32_t> name_offsets;
  for (uint16_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const auto h, read_at<Elf64_Shdr>(bytes, offset + i * sizeof(Elf64_Shdr)));
    Section s;
    s.type = h.sh_type;
    s.link = h.sh_link;
    s.info = h.sh_info;
    s.flags = h.sh_flags;
    s.align = h.sh_addralign;
    s.entry_size = h.sh_entsize;
    s.size = h.sh_size;
    if (h.sh_type != SHT_NOBITS && h.sh_type != SHT_NULL) {
      if (!in_bounds(h.sh_offset, h.sh_size, bytes.size()))
        return fail(Errc::kCorrupt, strf("object: section %u ends past the end", i));
      s.bytes = bytes.subspan(h.sh_offset, h.sh_size);
    }
    sections_.push_back(s);
    name_offsets.push_back(h.sh_name);
  }
  for (uint16_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(sections_[i].name, name_at(sections_[names].bytes, name_offsets[i]));
  }
  return {};
}

Status ElfObject::parse_symbols() {
  for (const Section& s : sections_) {
    if (s.type != SHT_SYMTAB) continue;
    if (!symbols_.empty()) return fail(Errc::kCorrupt, "object: two symbol tables");
    if (s.link >= sections_.size()) return fail(Errc::kCorrupt, "object: symbols without names");
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= s.bytes.size(); at += sizeof(Elf64_Sym)) {
      ASSIGN_OR_RETURN(const auto sym, read_at<Elf64_Sym>(s.bytes, at));
      ASSIGN_OR_RETURN(const std::string_view name, name_at(sections_[s.link].bytes, sym.st_name));
      symbols_.push_back(Symbol{name, static_cast<uint8_t>(ELF64_ST_TYPE(sym.st_info)),
                                sym.st_shndx, sym.st_value, sym.st_size});
    }
  }
  return {};
}

Result<std::vector<ElfObject::Reloc>> ElfObject::relocs_of(uint32_t index) const {
  std::vector<Reloc> out;
  for (const Section& s : sections_) {
    if (s.info != index || s.size == 0) continue;
    if (s.type == SHT_REL) return fail(Errc::kUnsupported, "object: relocations without addends");
    if (s.type != SHT_RELA) continue;
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= s.bytes.size(); at += sizeof(Elf64_Rela)) {
      ASSIGN_OR_RETURN(const auto r, read_at<Elf64_Rela>(s.bytes, at));
      out.push_back(Reloc{r.r_offset, static_cast<uint32_t>(ELF64_R_TYPE(r.r_info)),
                          static_cast<uint32_t>(ELF64_R_SYM(r.r_info)), r.r_addend});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Reloc& a, const Reloc& b) { return a.offset < b.offset; });
  return out;
}

Result<CompiledImage> cut_image(const ElfObject& object, std::string_view function) {
  return Cutter(object, function).cut();
}

}  // namespace modeld::compile
