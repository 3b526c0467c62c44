#include "runtime/render/render_amd.h"

#include "runtime/render/opencl_kernel.h"
#include "runtime/render/wmma_text.h"

namespace modeld::render {

namespace {

CDialect amd_dialect() {
  CDialect d;
  d.language = CLanguage::kAmd;
  d.native_f16 = true;
  return d;
}

// Vector types of the language header, which is not included, and their memory forms ("u").
std::string vector_types() {
  std::string out;
  for (const char* t : {"char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half",
                        "float", "double"}) {
    for (int n : {2, 4, 8, 16}) {
      out += strf("typedef %s %s%d __attribute__((ext_vector_type(%d)));\n", t, t, n, n);
      out += strf("typedef %s %s%du __attribute__((ext_vector_type(%d), aligned(sizeof(%s))));\n",
                  t, t, n, n, t);
    }
  }
  return out;
}

const char* const kHead = R"(#ifndef MODELD_PRELUDE
#define MODELD_PRELUDE
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define NAN __builtin_nanf("")
#define INFINITY __builtin_inff()
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
)";

const char* const kMacros = R"(#define modeld_half_bits(x) __builtin_astype((half)(x), ushort)
#define modeld_half_of(x) ((float)__builtin_astype((x), half))
#define modeld_round_half(x) ((float)(half)(x))
#define modeld_round_half2(x) \
  __builtin_convertvector(__builtin_convertvector(x, half2), float2)
#define modeld_round_half4(x) \
  __builtin_convertvector(__builtin_convertvector(x, half4), float4)
#define modeld_barrier()                              \
  do {                                                \
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); \
    __builtin_amdgcn_s_barrier();                     \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); \
  } while (0)
)";

}  // namespace

std::string amd_prelude(const hal::Target& target) {
  return kHead + vector_types() + kMacros + wmma_functions(target) + "#endif\n";
}

Result<std::string> render_amd(ir::Graph& g,
                               std::span<const ir::Node* const> linear,
                               const std::string& name) {
  return opencl_kernel(amd_dialect(), g, linear, name);
}

Renderer amd_renderer(const hal::Target& target) {
  return {"amd", amd_prelude(target), render_amd};
}

}  // namespace modeld::render
