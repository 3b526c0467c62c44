// Tensors as .npy files, as seeded numbers, and compared. This is not arithmetic: values are moved,
// converted to double, and measured. Contract: an array that does not fit its tensor gives one line
// naming the input, what was expected and what was seen. Seeded numbers depend on (seed, name,
// dtype, count) only. Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hal/base/npy.h"
#include "hal/base/status.h"

#include "runtime/exec/plan.h"

namespace modeld::tools {

using Bytes = std::vector<std::byte>;

// "<f4"; bf16 travels as "<u2".
const char* npy_type(ir::DType dtype);
std::string dims_text(std::span<const int64_t> dims);     // "1x3x320x320", "scalar"
std::string tensor_text(const exec::TensorInfo& tensor);  // "f32 1x3x320x320"

// `info` says what the tensor must be, `path` is for the message.
Result<Bytes> tensor_from_npy(const NpyArray& array,
                              const exec::TensorInfo& info,
                              const std::string& path);
NpyArray npy_from_tensor(std::span<const std::byte> bytes, const exec::TensorInfo& info);
// DIR/NAME.npy with '/' -> '_'.
std::string output_path(const std::string& dir, const std::string& tensor);

// Floats in [-1, 1), bytes 1..255, other integers 0..7, bools 0 and 1.
Bytes seeded_tensor(uint64_t seed, const std::string& name, ir::DType dtype, uint64_t bytes);

std::vector<double> to_doubles(std::span<const std::byte> bytes, ir::DType dtype);

// The numeric truth: |value - reference| <= tolerance x max|reference| for floats, equality for
// everything else. A NaN or infinity must be the same in both.
struct Comparison {
  bool is_equal_enough = true;
  double max_abs_error = 0;
  double max_reference = 0;
  double limit = 0;
  uint64_t count = 0;  // numbers of the reference
  uint64_t worst_index = 0;
  double worst_value = 0, worst_reference = 0;
  // "max error 1.2e-06 at 17 (0.25, reference 0.25), limit 1e-04" or "exact, 4096 numbers"
  std::string text() const;
};
// 1e-4, or 1e-2 when something in the kernel or plan is computed in f16 or bf16.
double tolerance_of(const exec::ProgramRow& program);  // wants ast_text
double tolerance_of(const exec::Plan& plan);
Comparison compare(std::span<const std::byte> value,
                   std::span<const std::byte> reference,
                   ir::DType dtype,
                   double tolerance);

}  // namespace modeld::tools
