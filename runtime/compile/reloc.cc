#include "runtime/compile/reloc.h"

#include <elf.h>

#include <cstring>

#include "hal/base/bytes.h"

namespace modeld::compile {

namespace {

constexpr uint64_t kArmPage = 4096;

struct Known {
  uint16_t machine;
  uint32_t type;
  const char* name;
};
constexpr Known kKnown[] = {
    {EM_X86_64, R_X86_64_PC32, "R_X86_64_PC32"},
    {EM_X86_64, R_X86_64_PLT32, "R_X86_64_PLT32"},
    {EM_X86_64, R_X86_64_PC64, "R_X86_64_PC64"},
    {EM_AARCH64, R_AARCH64_PREL32, "R_AARCH64_PREL32"},
    {EM_AARCH64, R_AARCH64_PREL64, "R_AARCH64_PREL64"},
    {EM_AARCH64, R_AARCH64_ADR_PREL_LO21, "R_AARCH64_ADR_PREL_LO21"},
    {EM_AARCH64, R_AARCH64_LD_PREL_LO19, "R_AARCH64_LD_PREL_LO19"},
    {EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, "R_AARCH64_ADR_PREL_PG_HI21"},
    {EM_AARCH64, R_AARCH64_ADD_ABS_LO12_NC, "R_AARCH64_ADD_ABS_LO12_NC"},
    {EM_AARCH64, R_AARCH64_LDST8_ABS_LO12_NC, "R_AARCH64_LDST8_ABS_LO12_NC"},
    {EM_AARCH64, R_AARCH64_LDST16_ABS_LO12_NC, "R_AARCH64_LDST16_ABS_LO12_NC"},
    {EM_AARCH64, R_AARCH64_LDST32_ABS_LO12_NC, "R_AARCH64_LDST32_ABS_LO12_NC"},
    {EM_AARCH64, R_AARCH64_LDST64_ABS_LO12_NC, "R_AARCH64_LDST64_ABS_LO12_NC"},
    {EM_AARCH64, R_AARCH64_LDST128_ABS_LO12_NC, "R_AARCH64_LDST128_ABS_LO12_NC"},
    {EM_AARCH64, R_AARCH64_CALL26, "R_AARCH64_CALL26"},
    {EM_AARCH64, R_AARCH64_JUMP26, "R_AARCH64_JUMP26"},
};

// Types that are refused but worth a name in the message.
constexpr Known kNamed[] = {
    {EM_X86_64, R_X86_64_64, "R_X86_64_64"},
    {EM_X86_64, R_X86_64_32S, "R_X86_64_32S"},
    {EM_X86_64, R_X86_64_GOTPCREL, "R_X86_64_GOTPCREL"},
    {EM_X86_64, R_X86_64_GOTPCRELX, "R_X86_64_GOTPCRELX"},
    {EM_X86_64, R_X86_64_REX_GOTPCRELX, "R_X86_64_REX_GOTPCRELX"},
    {EM_AARCH64, R_AARCH64_ADR_GOT_PAGE, "R_AARCH64_ADR_GOT_PAGE"},
    {EM_AARCH64, R_AARCH64_LD64_GOT_LO12_NC, "R_AARCH64_LD64_GOT_LO12_NC"},
    {EM_AARCH64, R_AARCH64_GOT_LD_PREL19, "R_AARCH64_GOT_LD_PREL19"},
    {EM_AARCH64, R_AARCH64_ABS64, "R_AARCH64_ABS64"},
};

constexpr bool fits_signed(int64_t v, int bits) {
  const int64_t half = int64_t{1} << (bits - 1);
  return v >= -half && v < half;
}

// Access size shift of an LDSTn_ABS_LO12_NC relocation, or -1.
int ldst_shift(uint32_t type) {
  switch (type) {
    case R_AARCH64_LDST8_ABS_LO12_NC:
      return 0;
    case R_AARCH64_LDST16_ABS_LO12_NC:
      return 1;
    case R_AARCH64_LDST32_ABS_LO12_NC:
      return 2;
    case R_AARCH64_LDST64_ABS_LO12_NC:
      return 3;
    case R_AARCH64_LDST128_ABS_LO12_NC:
      return 4;
    default:
      return -1;
  }
}

Status out_of_range(uint16_t machine, uint32_t type, int64_t value) {
  return fail(Errc::kCompile, strf("%s: value %lld does not fit", reloc_name(machine, type),
                                   static_cast<long long>(value)));
}

template <class T>
Status put(std::span<std::byte> image, uint64_t place, T value) {
  if (!in_bounds(place, sizeof(T), image.size()))
    return fail(Errc::kCompile, strf("relocation at %llu lies outside of the image",
                                     static_cast<unsigned long long>(place)));
  std::memcpy(image.data() + place, &value, sizeof(T));
  return {};
}

// Replaces the bits of `mask` in the instruction word at `place`.
Status put_bits(std::span<std::byte> image, uint64_t place, uint32_t mask, uint32_t bits) {
  if (!in_bounds(place, 4, image.size()) || place % 4 != 0)
    return fail(Errc::kCompile, strf("relocation at %llu lies outside of the image",
                                     static_cast<unsigned long long>(place)));
  uint32_t word = 0;
  std::memcpy(&word, image.data() + place, 4);
  word = (word & ~mask) | (bits & mask);
  std::memcpy(image.data() + place, &word, 4);
  return {};
}

// ADR and ADRP split their 21-bit immediate: low two bits at 29, the rest at 5.
Status put_adr(std::span<std::byte> image, uint64_t place, int64_t imm) {
  const auto u = static_cast<uint32_t>(imm);
  return put_bits(image, place, 0x60ffffe0u, ((u & 3) << 29) | (((u >> 2) & 0x7ffff) << 5));
}

Status apply_arm(uint32_t type, std::span<std::byte> image, uint64_t place, int64_t target) {
  const int64_t delta = target - static_cast<int64_t>(place);
  if (const int shift = ldst_shift(type); shift >= 0) {
    const auto low = static_cast<uint32_t>(target) & (kArmPage - 1);
    if ((low & ((1u << shift) - 1)) != 0) return out_of_range(EM_AARCH64, type, target);
    return put_bits(image, place, 0x003ffc00u, static_cast<uint32_t>(low >> shift) << 10);
  }
  switch (type) {
    case R_AARCH64_PREL32:
      if (!fits_signed(delta, 32)) return out_of_range(EM_AARCH64, type, delta);
      return put(image, place, static_cast<int32_t>(delta));
    case R_AARCH64_PREL64:
      return put(image, place, delta);
    case R_AARCH64_ADR_PREL_LO21:
      if (!fits_signed(delta, 21)) return out_of_range(EM_AARCH64, type, delta);
      return put_adr(image, place, delta);
    case R_AARCH64_LD_PREL_LO19:
      if (!fits_signed(delta, 21) || delta % 4 != 0) return out_of_range(EM_AARCH64, type, delta);
      return put_bits(image, place, 0x00ffffe0u,
                      (static_cast<uint32_t>(delta >> 2) & 0x7ffff) << 5);
    case R_AARCH64_ADR_PREL_PG_HI21: {
      const int64_t pages = (target >> 12) - static_cast<int64_t>(place >> 12);
      if (!fits_signed(pages, 21)) return out_of_range(EM_AARCH64, type, pages);
      return put_adr(image, place, pages);
    }
    case R_AARCH64_ADD_ABS_LO12_NC:
      return put_bits(image, place, 0x003ffc00u,
                      static_cast<uint32_t>(static_cast<uint64_t>(target) & (kArmPage - 1)) << 10);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      if (!fits_signed(delta, 28) || delta % 4 != 0) return out_of_range(EM_AARCH64, type, delta);
      return put_bits(image, place, 0x03ffffffu, static_cast<uint32_t>(delta >> 2));
    default:
      return fail(Errc::kCompile, "unknown relocation");
  }
}

}  // namespace

const char* reloc_name(uint16_t machine, uint32_t type) {
  for (const Known& k : kKnown)
    if (k.machine == machine && k.type == type) return k.name;
  for (const Known& k : kNamed)
    if (k.machine == machine && k.type == type) return k.name;
  return "relocation of unknown type";
}

bool reloc_is_known(uint16_t machine, uint32_t type) {
  for (const Known& k : kKnown)
    if (k.machine == machine && k.type == type) return true;
  return false;
}

uint64_t reloc_alignment(uint16_t machine, uint32_t type) {
  if (machine != EM_AARCH64) return 1;
  const bool page = type == R_AARCH64_ADR_PREL_PG_HI21 || type == R_AARCH64_ADD_ABS_LO12_NC ||
                    ldst_shift(type) >= 0;
  return page ? kArmPage : 1;
}

Status apply_reloc(
    uint16_t machine, uint32_t type, std::span<std::byte> image, uint64_t place, int64_t target) {
  if (!reloc_is_known(machine, type))
    return fail(Errc::kCompile,
                strf("%s (%u) cannot be resolved", reloc_name(machine, type), type));
  if (machine == EM_AARCH64) return apply_arm(type, image, place, target);
  const int64_t delta = target - static_cast<int64_t>(place);
  if (type == R_X86_64_PC64) return put(image, place, delta);
  if (!fits_signed(delta, 32)) return out_of_range(machine, type, delta);
  return put(image, place, static_cast<int32_t>(delta));
}

}  // namespace modeld::compile
