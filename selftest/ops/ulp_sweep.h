// EXP2, LOG2 and SIN as generated code against the C library in a wider type, over a whole type or
// samples of it. Threading: one thread.
#pragma once

#include <cstdint>
#include <string>

#include "hal/base/status.h"

#include "runtime/codegen/options.h"

namespace modeld::ops {

struct Sweep {
  ir::Op op = ir::Op::kSin;
  ir::DType type = ir::DType::kF32;
  uint64_t first = 0, stride = 1;  // bit patterns visited; f64: multiplied to spread over the type
  uint64_t count = 0;
};

struct SweepResult {
  uint64_t values = 0;
  uint64_t wrong = 0;  // special values and signs that differ, or more than `allowed` units
  double worst = 0;    // units in the last place
  double worst_at = 0;
};

// Every value of a 16- or 32-bit type at `stride`; for f64 `count` values.
Sweep whole_sweep(ir::Op op, ir::DType type, uint64_t stride, uint64_t count);
// What the table allows for the op in this type.
double allowed_units(ir::Op op, ir::DType type);

// Deliberate defects of what the kernel gave: what a wrong coefficient, a lost special value would.
enum class SweepDefect : uint8_t { kNone, kTwoUnits, kLostNan, kLostSign, kLostSubnormals };

Result<SweepResult> run_sweep(const Sweep& s,
                              const codegen::CodegenOptions& options,
                              SweepDefect defect = SweepDefect::kNone);

}  // namespace modeld::ops
