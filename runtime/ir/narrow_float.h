// The four 8-bit float formats, field by field; dtype.h has the conversions. Narrowing rounds to
// nearest even, denormals included, and saturates: what is too large, infinity too, becomes the
// largest finite number. NaN stays NaN. Threading: constant data.
#pragma once

#include <cstdint>

#include "runtime/ir/dtype.h"

namespace modeld::ir {

// Sign, exponent, mantissa, from the high bit down.
struct Float8 {
  int mantissa_bits;
  int bias;
  uint8_t max_bits;       // the largest finite number
  uint8_t nan_bits;       // what a NaN is stored as, without its sign
  bool has_infinity;      // above max_bits stand infinity and NaNs
  bool is_unsigned_zero;  // fnuz: no negative zero; its bits are the one NaN
};
// Null for every other type.
const Float8* float8_format(DType t);

}  // namespace modeld::ir
