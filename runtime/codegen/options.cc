#include "runtime/codegen/options.h"

#include "hal/base/text.h"

#include "runtime/codegen/tensor_cores.h"

namespace modeld::codegen {

namespace {

std::string list(const std::vector<int64_t>& v) {
  std::string out;
  for (int64_t x : v) out += strf(" %lld", static_cast<long long>(x));
  return out;
}

std::string caps_text(const RendererCaps& c) {
  return strf(
             "renderer=%s locals=%d threads=%d shared=%lld global=%lld,%lld,%lld "
             "local=%lld,%lld,%lld group=%lld tc=%s unaligned=%d any=%d pack=%d f16=%d trunc=%d "
             "mulacc=%d native=%d%d%d image=%d",
             c.name.c_str(), c.has_locals, c.has_threads, static_cast<long long>(c.shared_max),
             static_cast<long long>(c.global_max[0]), static_cast<long long>(c.global_max[1]),
             static_cast<long long>(c.global_max[2]), static_cast<long long>(c.local_max[0]),
             static_cast<long long>(c.local_max[1]), static_cast<long long>(c.local_max[2]),
             static_cast<long long>(c.group_max), join(c.tensor_cores, ",").c_str(),
             c.unaligned_vectors, c.any_vectors, c.pack_lanes, c.native_f16, c.has_trunc,
             c.has_mulacc, c.has_exp2, c.has_log2, c.has_sin, c.image) +
         strf(" i64=%d w32=", c.native_i64) + list(c.widths32) + " w64=" + list(c.widths64);
}

}  // namespace

RendererCaps cpu_caps(const hal::Target& target) {
  RendererCaps caps;
  caps.name = target.renderer;
  // SSE4.1 rounds in one instruction; so does every aarch64.
  caps.has_trunc = target.arch == "aarch64" || target.has_feature("sse4.1");
  caps.native_f16 = target.arch == "aarch64" || target.has_feature("f16c");
  caps.tensor_cores = tensor_cores_of(target);
  return caps;
}

CodegenOptions cpu_options(const hal::Target& target) {
  CodegenOptions options;
  options.target = target;
  options.caps = cpu_caps(target);
  return options;
}

RendererCaps gpu_caps(const hal::Target& target) {
  RendererCaps caps;
  caps.name = target.renderer;
  caps.has_locals = true;
  caps.has_threads = false;
  // What every OpenCL 1.2 GPU of the last decade offers; Adreno's limits are the same.
  caps.global_max[0] = INT32_MAX;
  caps.global_max[1] = caps.global_max[2] = 65535;
  for (int64_t& m : caps.local_max) m = 1024;
  caps.group_max = 1024;
  caps.widths32 = {4, 2};
  caps.widths64 = {};
  caps.unaligned_vectors = false;
  caps.any_vectors = false;
  // GPU lanes are work items; arithmetic inside one is scalar.
  caps.pack_lanes = false;
  caps.has_exp2 = caps.has_log2 = true;
  // The amdgcn instruction takes turns, not radians, and loses small angles of large arguments.
  caps.has_sin = target.kind != "amd";
  caps.tensor_cores = tensor_cores_of(target);
  return caps;
}

CodegenOptions gpu_options(const hal::Target& target) {
  CodegenOptions options;
  options.target = target;
  options.caps = gpu_caps(target);
  options.heuristic = Heuristic::kReference;
  return options;
}

std::string options_text(const CodegenOptions& o) {
  std::string features;
  for (const std::string& f : o.target.features) features += "+" + f;
  return strf(
             "target=%s:%s%s renderer=%s cores=%d heuristic=%d noopt=%d nolocals=%d double=%d "
             "nocontract=%d fastidiv=%d tcuse=%d,%d ",
             o.target.kind.c_str(), o.target.arch.c_str(), features.c_str(),
             o.target.renderer.c_str(), o.target.threads, static_cast<int>(o.heuristic), o.noopt,
             o.nolocals, o.double_acc, o.no_contract, o.fast_idiv, o.tc, o.tc_opt) +
         caps_text(o.caps);
}

}  // namespace modeld::codegen
