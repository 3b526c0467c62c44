// Cuts a relocatable ELF64 object by function: one position-independent image per kernel, its text
// followed by the constants its relocations name, every relocation resolved inside the image. This
// is not a linker: nothing outside of the object is ever found. Contract: an image depends only on
// the function and its constants, not on what else the object holds. A relocation that cannot be
// resolved is kCompile naming function, type and symbol. The object is untrusted: every offset is
// checked. Units: bytes. Threading: plain values; an ElfObject borrows its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/status.h"

#include "runtime/compile/compiler.h"

namespace modeld::compile {

class ElfObject {
 public:
  struct Section {
    std::string_view name;
    uint32_t type = 0, link = 0, info = 0;
    uint64_t flags = 0, align = 1, entry_size = 0, size = 0;
    std::span<const std::byte> bytes;  // empty for sections without content
  };
  struct Symbol {
    std::string_view name;
    uint8_t type = 0;      // STT_*
    uint32_t section = 0;  // SHN_*
    uint64_t value = 0, size = 0;
  };
  struct Reloc {
    uint64_t offset = 0;
    uint32_t type = 0, symbol = 0;
    int64_t addend = 0;
  };

  static Result<ElfObject> parse(std::span<const std::byte> bytes);

  uint16_t machine() const { return machine_; }
  const std::vector<Section>& sections() const { return sections_; }
  const std::vector<Symbol>& symbols() const { return symbols_; }
  // Of section `index`, by increasing offset.
  Result<std::vector<Reloc>> relocs_of(uint32_t index) const;

 private:
  Status parse_sections(std::span<const std::byte> bytes,
                        uint64_t offset,
                        uint16_t count,
                        uint16_t names);
  Status parse_symbols();

  uint16_t machine_ = 0;
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
};

// The image of the function symbol `function`, which must have a text section of its own
// (-ffunction-sections).
Result<CompiledImage> cut_image(const ElfObject& object, std::string_view function);

}  // namespace modeld::compile
