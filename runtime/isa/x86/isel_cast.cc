#include "runtime/isa/x86/selector.h"

namespace modeld::isa::x86 {

const Node* Selector::cast(const Node* n) {
  const int64_t lanes = shapes_.lanes(n);
  if (n->dtype == n->src(0)->dtype) return done_.get(n->src(0));
  return lanes == 1 ? scalar_cast(n) : vector_cast(n, lanes);
}

// ---- scalars ----

const Node* Selector::scalar_cast(const Node* n) {
  const DType from = n->src(0)->dtype;
  const DType to = n->dtype;
  const Node* x = get(n->src(0));
  const bool half = from == DType::kF16 || to == DType::kF16;
  if (half) {
    if (from == DType::kF16 && to == DType::kF32)
      return ins(g_, to, "vcvtph2ps.x", {ins(g_, from, "vmovd", {x})});
    if (from == DType::kF32 && to == DType::kF16)
      return extended(to, ins(g_, to, "vmovd_r", {ins(g_, to, "vcvtps2ph.x", {x}, 0)}));
    return bad(n);
  }
  if (ir::is_narrow_float(from) || ir::is_narrow_float(to)) return bad(n);
  if (is_wide_float(from) && is_wide_float(to))
    return ins(g_, to, to == DType::kF64 ? "vcvtss2sd" : "vcvtsd2ss", {x, x});
  if (is_wide_float(to)) {
    if (from == DType::kU64) return bad(n);
    const bool as_long = bits_of(from) == 64 || from == DType::kU32;
    return ins(g_, to,
               std::string(to == DType::kF64 ? "cvtsi2sd" : "cvtsi2ss") + (as_long ? ".q" : ".l"),
               {x});
  }
  if (is_wide_float(from)) {
    if (to == DType::kU64 || to == DType::kBool) return bad(n);
    const bool as_long = bits_of(to) == 64 || to == DType::kU32;
    const Node* whole = ins(
        g_, to,
        std::string(from == DType::kF64 ? "vcvttsd2si" : "vcvttss2si") + (as_long ? ".q" : ".l"),
        {x});
    return to == DType::kU32 ? ins(g_, to, "mov.l", {whole}) : extended(to, whole);
  }
  if (to == DType::kBool) return bad(n);
  if (bits_of(to) == 64)
    return ir::is_unsigned(from) || bits_of(from) == 64 ? x : ins(g_, to, "movsxd.q", {x});
  if (bits_of(from) == 64 && bits_of(to) == 32) return ins(g_, to, "mov.l", {x});
  return extended(to, x);
}

// ---- vectors ----

// Words to halves or bytes: the low parts, packed into the low end of a register.
const Node* Selector::narrowed(const Node* x, DType to, int64_t lanes) {
  const int64_t size = lanes * 4;
  const uint64_t part = bits_of(to) == 16 ? 0xffff : 0xff;
  x = ins(g_, to, with_width("vpand", size), {x, pool_vector(DType::kU32, part, size)});
  x = ins(g_, to, with_width("vpackusdw", size), {x, x});
  // Packing works inside 128-bit halves: words 0 and 2 of four hold the result.
  if (size == 32) x = ins(g_, to, "vpermq_i.y", {x}, 0x08);
  return bits_of(to) == 16 ? x : ins(g_, to, "vpackuswb.x", {x, x});
}

const Node* Selector::vector_cast(const Node* n, int64_t lanes) {
  if (!has_vector_form(shapes_, n)) return bad(n);
  const DType from = n->src(0)->dtype;
  const DType to = n->dtype;
  const Node* x = vec(n->src(0), lanes, bits_of(to));
  const int64_t size = lanes * bits_of(to) / 8;
  const int64_t larger = lanes * std::max(bits_of(from), bits_of(to)) / 8;
  const auto make = [&](const char* name) { return ins(g_, to, with_width(name, larger), {x}); };
  if (from == DType::kBool) {  // -1 becomes 1
    const Node* one = ir::is_float(to) ? ir::const_float(g_, 1) : ir::const_int(g_, 1);
    return ins(g_, to, with_width("vpand", size),
               {x, pool_vector(to, literal_bits(to, one), size)});
  }
  if (from == DType::kF16) return make("vcvtph2ps");
  if (to == DType::kF16) return ins(g_, to, with_width("vcvtps2ph", larger), {x}, 0);
  if (is_wide_float(from) && is_wide_float(to))
    return make(to == DType::kF64 ? "vcvtps2pd" : "vcvtpd2ps");
  if (is_wide_float(from)) return make(from == DType::kF64 ? "vcvttpd2dq" : "vcvttps2dq");
  if (is_wide_float(to)) return make(to == DType::kF64 ? "vcvtdq2pd" : "vcvtdq2ps");
  if (bits_of(from) == bits_of(to)) return x;
  const bool is_signed = !ir::is_unsigned(from);
  if (bits_of(to) < bits_of(from)) return narrowed(x, to, lanes);
  switch (bits_of(from)) {
    case 8:
      return make(is_signed ? "vpmovsxbd" : "vpmovzxbd");
    case 16:
      return make(is_signed ? "vpmovsxwd" : "vpmovzxwd");
    default:
      return make(is_signed ? "vpmovsxdq" : "vpmovzxdq");
  }
}

// ---- the same bits ----

const Node* Selector::bitcast(const Node* n) {
  const DType from = n->src(0)->dtype;
  const DType to = n->dtype;
  if (bits_of(from) != bits_of(to)) return bad(n);
  const int64_t lanes = shapes_.lanes(n);
  if (lanes > 1) return has_vector_form(shapes_, n) ? vec(n->src(0), lanes, 0) : bad(n);
  const Node* x = get(n->src(0));
  const bool wide = bits_of(to) == 64;
  if (is_wide_float(from) && is_wide_float(to)) return x;
  if (is_wide_float(from)) return ins(g_, to, wide ? "vmovq_r" : "vmovd_r", {x});
  if (is_wide_float(to)) return ins(g_, to, wide ? "vmovq" : "vmovd", {x});
  return extended(to, x);
}

}  // namespace modeld::isa::x86
