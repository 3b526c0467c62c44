// The numeric truth of a plan: the same kernels and calls, each compiled for this host's CPU
// without optimisation and with float arithmetic in double (kernels that are bit-exact by contract,
// the warps, keep their float32 roundings). This is what self-check, golden vectors and `modelc
// check` compare with. Contract: same entries, slots, buffers and weights as the plan it came from;
// only images, launch sizes and target differ. Threading: as lower_and_compile.
#pragma once

#include "hal/base/status.h"

#include "runtime/exec/compile_plan.h"
#include "runtime/exec/plan.h"

namespace modeld::tools {

// `plan` needs its ast_text. Of `options` jobs, caches, compiler and progress count.
Result<exec::Plan> reference_plan(const exec::Plan& plan, const exec::CompileOptions& options);

}  // namespace modeld::tools
