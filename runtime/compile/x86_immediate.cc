#include "runtime/compile/x86_immediate.h"

#include <algorithm>
#include <iterator>

namespace modeld::compile {

namespace {

// Opcode maps as the prefixes number them: 1 = 0F, 2 = 0F 38, 3 = 0F 3A; 5 and 6 hold half
// precision arithmetic.
int64_t size_in_map(uint32_t map, uint8_t opcode) {
  constexpr uint8_t kWithByte[] = {0x70, 0x71, 0x72, 0x73, 0xa4, 0xac,
                                   0xba, 0xc2, 0xc4, 0xc5, 0xc6};
  if (map == 3) return 1;
  if (map != 1) return 0;
  return std::find(std::begin(kWithByte), std::end(kWithByte), opcode) != std::end(kWithByte) ? 1
                                                                                              : 0;
}

// Opcodes of one byte. Those with a full immediate have two bytes of it after a 66 prefix.
void add_one_byte(uint8_t opcode, uint8_t modrm, bool is_word, std::vector<int64_t>* out) {
  const bool is_test = ((modrm >> 3) & 6) == 0;  // F6 and F7: TEST has an immediate, NOT has none
  switch (opcode) {
    case 0x6b:
    case 0x80:
    case 0x83:
    case 0xc0:
    case 0xc1:
    case 0xc6:
      out->push_back(1);
      return;
    case 0xf6:
      out->push_back(is_test ? 1 : 0);
      return;
    case 0x69:
    case 0x81:
    case 0xc7:
      out->push_back(is_word ? 2 : 4);
      return;
    case 0xf7:
      out->push_back(!is_test ? 0 : is_word ? 2 : 4);
      return;
    default:
      out->push_back(0);
  }
}

}  // namespace

std::vector<int64_t> x86_immediate_sizes(std::span<const std::byte> text, uint64_t displacement) {
  if (displacement < 2 || displacement > text.size()) return {};
  const auto before = [&](uint64_t n) {
    return n <= displacement ? std::to_integer<uint8_t>(text[displacement - n]) : uint8_t{0};
  };
  const uint8_t modrm = before(1), opcode = before(2);
  if ((modrm & 0xc7) != 0x05) return {};
  std::vector<int64_t> out;
  if (before(6) == 0x62 && (before(5) & 0x08) == 0 && (before(4) & 0x04) != 0)  // EVEX
    out.push_back(size_in_map(before(5) & 7, opcode));
  if (const uint32_t map = before(4) & 0x1f; before(5) == 0xc4 && map >= 1 && map <= 3)  // VEX
    out.push_back(size_in_map(map, opcode));
  if (before(4) == 0xc5) out.push_back(size_in_map(1, opcode));  // VEX of two bytes
  if (before(4) == 0x0f && before(3) == 0x38) out.push_back(size_in_map(2, opcode));
  if (before(4) == 0x0f && before(3) == 0x3a) out.push_back(size_in_map(3, opcode));
  if (before(3) == 0x0f) out.push_back(size_in_map(1, opcode));
  add_one_byte(opcode, modrm, before(3) == 0x66 || before(4) == 0x66, &out);
  return out;
}

}  // namespace modeld::compile
