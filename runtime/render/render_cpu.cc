#include "runtime/render/render_cpu.h"

#include <vector>

#include "runtime/render/c_like.h"
#include "runtime/render/wmma_text.h"

namespace modeld::render {

using ir::DType;

namespace {

CDialect cpu_dialect(const hal::Target& target) {
  CDialect d;
  d.native_f16 = target.arch == "aarch64" || target.has_feature("f16c");
  return d;
}

}  // namespace

std::string cpu_prelude(const hal::Target& target) {
  const CDialect d = cpu_dialect(target);
  constexpr DType kTypes[] = {DType::kI8,  DType::kU8,  DType::kI16, DType::kU16, DType::kI32,
                              DType::kU32, DType::kI64, DType::kU64, DType::kF32, DType::kF64};
  std::string out;
  const auto vectors = [&](DType t) {
    const int64_t size = ir::item_size(t);
    for (int64_t n : {2, 4, 8, 16}) {
      const std::string name = strf("%sx%lld", c_short(t), static_cast<long long>(n));
      const std::string scalar = c_type(d, t);
      const std::string lanes = strf("ext_vector_type(%lld)", static_cast<long long>(n));
      out += "typedef " + scalar + " " + name + " __attribute__((" + lanes + "));\n";
      // Memory form: element alignment is all a vector access may assume.
      out += "typedef " + scalar + " " + name + "u __attribute__((" + lanes +
             strf(", aligned(%lld), may_alias));\n", static_cast<long long>(size));
    }
  };
  for (DType t : kTypes) vectors(t);
  if (d.native_f16) vectors(DType::kF16);
  // Bits of one type seen as another of the same size: bits_f32_u32(x).
  std::vector<std::vector<DType>> same_size = {{DType::kF32, DType::kU32, DType::kI32},
                                               {DType::kF64, DType::kU64, DType::kI64}};
  if (d.native_f16) same_size.push_back({DType::kF16, DType::kU16, DType::kI16});
  for (const auto& types : same_size) {
    for (DType from : types) {
      for (DType to : types) {
        if (from == to) continue;
        out += "static inline __attribute__((always_inline)) " + c_type(d, to) + " bits_" +
               c_short(from) + "_" + c_short(to) + "(" + c_type(d, from) + " x) { union { " +
               c_type(d, from) + " from; " + c_type(d, to) +
               " to; } u; u.from = x; return u.to; }\n";
      }
    }
  }
  // clang narrows `x < c ? x : c` on converted halves to a minimum of halves, and calls the C
  // library for it. There is none: these two stand in, with what a comparison gives for a NaN.
  if (d.native_f16) {
    out += "float fminf(float a, float b) { return a < b ? a : b; }\n";
    out += "float fmaxf(float a, float b) { return a > b ? a : b; }\n";
  }
  out += wmma_functions(target);
  return out;
}

Result<std::string> render_cpu(const hal::Target& target,
                               ir::Graph& g,
                               std::span<const ir::Node* const> linear,
                               const std::string& name) {
  auto body = c_body(cpu_dialect(target), g, linear);
  if (!body.ok()) return fail(std::move(body).error().with("render " + name));
  return "void " + name + "(const unsigned long long* a, unsigned core_id) {\n" + *body + "}\n";
}

Renderer cpu_renderer(const hal::Target& target) {
  return {
      "c", cpu_prelude(target),
      [target](ir::Graph& g, std::span<const ir::Node* const> linear, const std::string& function) {
        return render_cpu(target, g, linear, function);
      }};
}

}  // namespace modeld::render
