// Scalar types of the IR, their order, promotion, and the value rules constants follow.
// Vectors are shapes, not types. Values: copy freely. Threading: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace modeld::ir {

// The numbers are part of content keys and of every order made from them: new types go to the end.
// Which type is wider than which is least_upper()'s.
enum class DType : uint8_t {
  kVoid,
  kWeakInt,  // mathematical integer: plain literals and index arithmetic; no width
  kBool,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kWeakFloat,  // plain float literals
  kF16,
  kBF16,
  kF32,
  kF64,
  kF8E4M3,  // 8-bit floats: narrow_float.h
  kF8E4M3Fnuz,
  kF8E5M2,
  kF8E5M2Fnuz,
};
inline constexpr int kDTypeCount = 20;

const char* dtype_name(DType t);  // "f32"
std::optional<DType> dtype_from_name(std::string_view name);
int item_bits(DType t);
inline int item_size(DType t) {
  return (item_bits(t) + 7) / 8;
}  // bytes; bool is 1

bool is_float(DType t);     // 8 bits to f64, and weakfloat
bool is_int(DType t);       // i8..u64 and weakint; not bool
bool is_unsigned(DType t);  // u8..u64 and bool
bool is_weak(DType t);

// Smallest common ancestor of the promotion lattice.
DType least_upper(DType a, DType b);
// Type of a sum over t: unsigned at least u32, signed and bool at least i32, floats at least f32.
DType sum_dtype(DType t);
// What a weak type becomes when it must have a width.
DType strong(DType t);

// Inclusive range of integer types (bool: 0..1); u64 and weakint saturate to int64.
int64_t int_min(DType t);
int64_t int_max(DType t);

// Rounds or wraps a value to what storage of type t would hold.
double round_to(DType t, double v);
int64_t wrap_to(DType t, int64_t v);

// IEEE half and bfloat16 conversion, round to nearest even.
uint16_t f32_to_f16_bits(float v);
float f16_bits_to_f32(uint16_t bits);
uint16_t f32_to_bf16_bits(float v);
float bf16_bits_to_f32(uint16_t bits);

// f16, bf16 and 8 bits: floats that are computed in f32 and only stored narrow. Narrowing rounds
// once, to nearest even; 8 bits saturate (narrow_float.h), the others go to infinity.
bool is_narrow_float(DType t);
uint16_t to_narrow_bits(DType t, double v);
float from_narrow_bits(DType t, uint16_t bits);

}  // namespace modeld::ir
