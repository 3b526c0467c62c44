#include "runtime/render/wmma_text.h"

#include <string_view>

namespace modeld::render {

namespace {

struct Text {
  const char* core;
  const char* kind;
  const char* needs;  // CPU feature or architecture
  const char* body;
};

// `a` is one row of K steps, spread over the results; the builtins are clang's.
#define MODELD_DPBUSD(unsigned_one, signed_one)                                                 \
  "{ typedef int v16 __attribute__((vector_size(64))); union { u8x4 u; i8x4 s; int bits; } r; " \
  "r." unsigned_one                                                                             \
  "; v16 row = {0}; row += r.bits; "                                                            \
  "return (i32x16)__builtin_ia32_vpdpbusd512((v16)acc, " signed_one "); }"

constexpr Text kTexts[] = {
    {"avx512_u8_i8", "cpu", "avx512vnni",
     "static inline __attribute__((always_inline)) i32x16 wmma_avx512_u8_i8(u8x4 a, i8x64 b, "
     "i32x16 acc) " MODELD_DPBUSD("u = a", "row, (v16)b")},
    {"avx512_i8_u8", "cpu", "avx512vnni",
     "static inline __attribute__((always_inline)) i32x16 wmma_avx512_i8_u8(i8x4 a, u8x64 b, "
     "i32x16 acc) " MODELD_DPBUSD("s = a", "(v16)b, row")},
    {"avx512_bf16", "cpu", "avx512bf16",
     "static inline __attribute__((always_inline)) f32x16 wmma_avx512_bf16(u16x2 a, u16x32 b, "
     "f32x16 acc) { typedef int v16 __attribute__((vector_size(64))); typedef float f16v "
     "__attribute__((vector_size(64))); typedef __bf16 v32 __attribute__((vector_size(64))); union "
     "{ u16x2 pair; int bits; } r; r.pair = a; "
     "v16 row = {0}; row += r.bits; "
     "return (f32x16)__builtin_ia32_dpbf16ps_512((f16v)acc, (v32)row, (v32)b); }"},
    // A result of halves lies in the low half of each of eight registers.
    {"rdna3_f16_f32", "amd", "gfx1100",
     "static inline float8 wmma_rdna3_f16_f32(half16 a, half16 b, float8 acc) { return "
     "__builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, acc); }"},
    {"rdna3_f16_f16", "amd", "gfx1100",
     "static inline half8 wmma_rdna3_f16_f16(half16 a, half16 b, half8 acc) { half16 wide = 0; "
     "wide.even = acc; half16 sum = __builtin_amdgcn_wmma_f16_16x16x16_f16_w32(a, b, wide, false); "
     "return sum.even; }"},
    {"rdna3_bf16_f32", "amd", "gfx1100",
     "static inline float8 wmma_rdna3_bf16_f32(ushort16 a, ushort16 b, float8 acc) { return "
     "__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_astype(a, short16), "
     "__builtin_astype(b, short16), acc); }"},
    {"rdna4_f16_f32", "amd", "gfx1201",
     "static inline float8 wmma_rdna4_f16_f32(half8 a, half8 b, float8 acc) { return "
     "__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, acc); }"},
    {"rdna4_f16_f16", "amd", "gfx1201",
     "static inline half8 wmma_rdna4_f16_f16(half8 a, half8 b, half8 acc) { return "
     "__builtin_amdgcn_wmma_f16_16x16x16_f16_w32_gfx12(a, b, acc); }"},
    {"rdna4_bf16_f32", "amd", "gfx1201",
     "static inline float8 wmma_rdna4_bf16_f32(ushort8 a, ushort8 b, float8 acc) { return "
     "__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(__builtin_astype(a, short8), "
     "__builtin_astype(b, short8), acc); }"},
};
#undef MODELD_DPBUSD

// Vector types only matrix operands have.
constexpr const char* kWideTypes =
    "typedef signed char i8x64 __attribute__((ext_vector_type(64)));\n"
    "typedef unsigned char u8x64 __attribute__((ext_vector_type(64)));\n"
    "typedef unsigned short u16x32 __attribute__((ext_vector_type(32)));\n";

}  // namespace

std::string wmma_functions(const hal::Target& target) {
  std::string out;
  for (const Text& t : kTexts) {
    const bool here = target.is_cpu() ? target.has_feature(t.needs) : target.arch == t.needs;
    if (target.kind != t.kind || !here) continue;
    out += t.body;
    out += "\n";
  }
  return target.is_cpu() && !out.empty() ? kWideTypes + out : out;
}

}  // namespace modeld::render
