#include <bit>
#include <cmath>
#include <string>

#include "runtime/render/c_like.h"

namespace modeld::render {

using ir::DType;

const char* c_short(DType t) {
  switch (t) {
    case DType::kBool:
      return "bool";
    case DType::kI8:
      return "i8";
    case DType::kU8:
      return "u8";
    case DType::kI16:
      return "i16";
    case DType::kU16:
      return "u16";
    case DType::kI32:
      return "i32";
    case DType::kU32:
      return "u32";
    case DType::kI64:
      return "i64";
    case DType::kU64:
      return "u64";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    default:
      return "void";
  }
}

namespace {

// Exact: hexadecimal, so that no decimal rounding can differ.
std::string float_literal(const CDialect& d, double v, DType t) {
  const bool f64 = t == DType::kF64;
  if (d.is_opencl() && !std::isfinite(v)) {
    const std::string text = std::isnan(v) ? "NAN" : v < 0 ? "(-INFINITY)" : "INFINITY";
    return f64 ? "((double)" + text + ")" : text;
  }
  if (std::isnan(v)) return f64 ? "__builtin_nan(\"\")" : "__builtin_nanf(\"\")";
  if (std::isinf(v)) {
    const char* inf = f64 ? "__builtin_inf()" : "__builtin_inff()";
    return v < 0 ? std::string("(-") + inf + ")" : inf;
  }
  const std::string text = f64 ? strf("%a", v) : strf("%af", v);
  return std::signbit(v) ? "(" + text + ")" : text;
}

std::string int_literal(const CDialect& d, int64_t v, DType t) {
  const char* wide = d.is_opencl() ? "l" : "ll";  // long is 64 bits in OpenCL
  switch (t) {
    case DType::kU64:
      return strf("%lluu%s", static_cast<unsigned long long>(v), wide);
    case DType::kU32:
      return strf("%lluu", static_cast<unsigned long long>(static_cast<uint32_t>(v)));
    case DType::kI64:
      if (v == INT64_MIN) return strf("(-9223372036854775807%s-1)", wide);
      return v < 0 ? strf("(%lld%s)", static_cast<long long>(v), wide)
                   : strf("%lld%s", static_cast<long long>(v), wide);
    default:
      if (v == INT32_MIN) return "(-2147483647-1)";
      return v < 0 ? strf("(%lld)", static_cast<long long>(v))
                   : strf("%lld", static_cast<long long>(v));
  }
}

}  // namespace

std::string c_literal(const CDialect& dialect, DType t, const ir::Node* constant) {
  if (const auto v = ir::num_value(constant); v && ir::is_float(t)) {
    if (t == DType::kF32 || t == DType::kF64) return float_literal(dialect, *v, t);
    const auto f = static_cast<float>(*v);
    if (t == DType::kF16 && dialect.is_opencl())
      return float_literal(dialect, ir::f16_bits_to_f32(ir::f32_to_f16_bits(f)), DType::kF32);
    if (t == DType::kF16 && dialect.native_f16)
      return "(_Float16)" + float_literal(dialect, f, DType::kF32);
    return int_literal(dialect, ir::to_narrow_bits(t, static_cast<double>(f)), DType::kI32);
  }
  return int_literal(dialect, ir::int_value(constant).value_or(0), t);
}

}  // namespace modeld::render
