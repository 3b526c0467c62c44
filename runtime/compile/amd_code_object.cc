#include "runtime/compile/amd_code_object.h"

#include <vector>

#include "hal/base/bytes.h"

namespace modeld::compile {

namespace {

// ELF specification and "User Guide for AMDGPU Backend" (llvm.org).
constexpr uint16_t kTypeDyn = 3, kMachineAmdGpu = 224;
constexpr uint8_t kOsAbiHsa = 64, kAbiVersion5 = 3;
constexpr uint32_t kMachMask = 0xff, kMachGfx1100 = 0x41, kMachGfx1201 = 0x4e;
constexpr uint32_t kSectionRela = 4, kSectionRel = 9, kSectionDynsym = 11;
constexpr uint64_t kSectionHeaderBytes = 64, kSymbolBytes = 24, kDescriptorBytes = 64;
constexpr uint64_t kMaxSections = 256, kMaxSymbols = 4096;

struct Section {
  uint32_t type = 0, link = 0;
  uint64_t address = 0, offset = 0, size = 0;
};

struct Symbol {
  std::string name;
  uint16_t section = 0;
  uint64_t value = 0, size = 0;
};

class Object {
 public:
  Object(std::span<const std::byte> bytes, const std::string& kernel)
      : bytes_(bytes), kernel_(kernel) {}

  Status parse(const std::string& arch);
  Result<AmdKernelFacts> facts() const;

 private:
  std::span<const std::byte> bytes_;
  const std::string& kernel_;
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;

  tl::unexpected<Error> bad(const std::string& why) const {
    return fail(Errc::kCompile, "code object of kernel " + kernel_ + ": " + why);
  }
  template <class T>
  Result<T> at(uint64_t offset) const {
    ByteReader r(bytes_, "code object");
    RETURN_IF_ERROR(r.seek(offset));
    return r.read<T>();
  }
  Status read_header(const std::string& arch) const;
  Status read_sections();
  Status read_symbols(const Section& table);
  Result<std::string> name_at(const Section& strings, uint64_t offset) const;
};

Status Object::read_header(const std::string& arch) const {
  ASSIGN_OR_RETURN(const uint32_t magic, at<uint32_t>(0));
  ASSIGN_OR_RETURN(const uint8_t os_abi, at<uint8_t>(7));
  ASSIGN_OR_RETURN(const uint8_t abi_version, at<uint8_t>(8));
  ASSIGN_OR_RETURN(const uint16_t type, at<uint16_t>(16));
  ASSIGN_OR_RETURN(const uint16_t machine, at<uint16_t>(18));
  ASSIGN_OR_RETURN(const uint32_t flags, at<uint32_t>(48));
  if (magic != 0x464c457f || type != kTypeDyn || machine != kMachineAmdGpu)
    return bad("no shared object for AMDGPU");
  if (os_abi != kOsAbiHsa || abi_version != kAbiVersion5)
    return bad(strf("ABI %u.%u, expected %u.%u", os_abi, abi_version, kOsAbiHsa, kAbiVersion5));
  const uint32_t want = arch == "gfx1100" ? kMachGfx1100 : arch == "gfx1201" ? kMachGfx1201 : 0;
  if (want == 0 || (flags & kMachMask) != want)
    return bad(strf("built for machine 0x%x, not for %s", flags & kMachMask, arch.c_str()));
  return {};
}

Status Object::read_sections() {
  ASSIGN_OR_RETURN(const uint64_t table, at<uint64_t>(40));
  ASSIGN_OR_RETURN(const uint16_t count, at<uint16_t>(60));
  if (count > kMaxSections) return bad(strf("%u sections", count));
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t header = table + i * kSectionHeaderBytes;
    Section s;
    ASSIGN_OR_RETURN(s.type, at<uint32_t>(header + 4));
    ASSIGN_OR_RETURN(s.address, at<uint64_t>(header + 16));
    ASSIGN_OR_RETURN(s.offset, at<uint64_t>(header + 24));
    ASSIGN_OR_RETURN(s.size, at<uint64_t>(header + 32));
    ASSIGN_OR_RETURN(s.link, at<uint32_t>(header + 40));
    if ((s.type == kSectionRela || s.type == kSectionRel) && s.size > 0)
      return bad("a relocation is left");
    sections_.push_back(s);
  }
  return {};
}

Result<std::string> Object::name_at(const Section& strings, uint64_t offset) const {
  std::string out;
  for (uint64_t i = offset; i < strings.size; ++i) {
    ASSIGN_OR_RETURN(const char c, at<char>(strings.offset + i));
    if (c == '\0') return out;
    out += c;
  }
  return bad("a symbol's name does not end");
}

Status Object::read_symbols(const Section& table) {
  if (table.link >= sections_.size() || table.size / kSymbolBytes > kMaxSymbols)
    return bad("its symbol table is damaged");
  for (uint64_t at_byte = kSymbolBytes; at_byte + kSymbolBytes <= table.size;
       at_byte += kSymbolBytes) {
    const uint64_t entry = table.offset + at_byte;
    Symbol s;
    ASSIGN_OR_RETURN(const uint32_t name, at<uint32_t>(entry));
    ASSIGN_OR_RETURN(s.section, at<uint16_t>(entry + 6));
    ASSIGN_OR_RETURN(s.value, at<uint64_t>(entry + 8));
    ASSIGN_OR_RETURN(s.size, at<uint64_t>(entry + 16));
    ASSIGN_OR_RETURN(s.name, name_at(sections_[table.link], name));
    if (s.section == 0) return bad("undefined symbol " + s.name);
    symbols_.push_back(std::move(s));
  }
  return {};
}

Status Object::parse(const std::string& arch) {
  RETURN_IF_ERROR(read_header(arch));
  RETURN_IF_ERROR(read_sections());
  for (size_t i = 0; i < sections_.size(); ++i) {
    if (sections_[i].type == kSectionDynsym) RETURN_IF_ERROR(read_symbols(sections_[i]));
  }
  return {};
}

Result<AmdKernelFacts> Object::facts() const {
  for (const Symbol& s : symbols_) {
    if (s.name != kernel_ + ".kd") continue;
    if (s.size != kDescriptorBytes || s.section >= sections_.size())
      return bad("its descriptor is damaged");
    const Section& home = sections_[s.section];
    if (s.value < home.address || !in_bounds(s.value - home.address, s.size, home.size))
      return bad("its descriptor lies outside of its section");
    AmdKernelFacts f;
    f.descriptor_address = s.value;
    f.descriptor_offset = home.offset + (s.value - home.address);
    const uint64_t d = f.descriptor_offset;
    ASSIGN_OR_RETURN(f.group_segment, at<uint32_t>(d));
    ASSIGN_OR_RETURN(f.private_segment, at<uint32_t>(d + 4));
    ASSIGN_OR_RETURN(f.kernarg_size, at<uint32_t>(d + 8));
    ASSIGN_OR_RETURN(const int64_t entry, at<int64_t>(d + 16));
    ASSIGN_OR_RETURN(f.rsrc3, at<uint32_t>(d + 44));
    ASSIGN_OR_RETURN(f.rsrc1, at<uint32_t>(d + 48));
    ASSIGN_OR_RETURN(f.rsrc2, at<uint32_t>(d + 52));
    ASSIGN_OR_RETURN(f.properties, at<uint16_t>(d + 56));
    f.entry_address = f.descriptor_address + static_cast<uint64_t>(entry);
    return f;
  }
  return bad("no kernel descriptor");
}

}  // namespace

Result<AmdKernelFacts> parse_amd_code_object(std::span<const std::byte> elf,
                                             const std::string& arch,
                                             const std::string& kernel) {
  Object object(elf, kernel);
  RETURN_IF_ERROR(object.parse(arch));
  return object.facts();
}

}  // namespace modeld::compile
