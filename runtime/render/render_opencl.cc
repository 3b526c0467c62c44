#include "runtime/render/render_opencl.h"

#include "runtime/render/opencl_kernel.h"

namespace modeld::render {

namespace {

// vload_half and vstore_half are core; the type itself as a variable is an extension, so rounding
// goes through its bits where the extension is missing.
const std::string kPrelude = R"(#ifndef MODELD_PRELUDE
#define MODELD_PRELUDE
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifdef __IMAGE_SUPPORT__
__constant sampler_t modeld_nearest =
    CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
#endif
ushort modeld_half_bits(float x) {
  ushort bits;
  vstore_half_rte(x, 0, (half*)&bits);
  return bits;
}
float modeld_half_of(ushort bits) { return vload_half(0, (const half*)&bits); }
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
float modeld_round_half(float x) { return convert_float(convert_half_rte(x)); }
float2 modeld_round_half2(float2 x) { return convert_float2(convert_half2_rte(x)); }
float4 modeld_round_half4(float4 x) { return convert_float4(convert_half4_rte(x)); }
#else
float modeld_round_half(float x) { return modeld_half_of(modeld_half_bits(x)); }
float2 modeld_round_half2(float2 x) {
  ushort2 bits;
  vstore_half2_rte(x, 0, (half*)&bits);
  return vload_half2(0, (const half*)&bits);
}
float4 modeld_round_half4(float4 x) {
  ushort4 bits;
  vstore_half4_rte(x, 0, (half*)&bits);
  return vload_half4(0, (const half*)&bits);
}
#endif
#endif
)";

CDialect opencl_dialect() {
  CDialect d;
  d.language = CLanguage::kOpenCl;
  d.native_f16 = true;
  return d;
}

}  // namespace

const std::string& opencl_prelude() {
  return kPrelude;
}

Result<std::string> render_opencl(ir::Graph& g,
                                  std::span<const ir::Node* const> linear,
                                  const std::string& name) {
  return opencl_kernel(opencl_dialect(), g, linear, name);
}

Renderer opencl_renderer() {
  return {"cl", opencl_prelude(), render_opencl};
}

}  // namespace modeld::render
