// ulp-sweep: EXP2, LOG2 and SIN of generated code over all values of f32, f16 and bf16 and over
// samples of f64. Prints the worst error in units in the last place; exit 1 when one is above what
// the op table allows.
#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "hal/base/clock.h"

#include "selftest/ops/ulp_sweep.h"
#include "selftest/testing/compiled_kernel.h"

namespace modeld::ops {
namespace {

using ir::DType;
using ir::Op;

constexpr Op kOps[] = {Op::kExp2, Op::kLog2, Op::kSin};

// The number of findings.
int sweep(Op op, DType type, uint64_t stride, uint64_t count) {
  const int64_t start = now_ns();
  const auto r = run_sweep(whole_sweep(op, type, stride, count), testing::host_options());
  if (!r.ok()) {
    std::printf("FINDING: %s %s: %s\n", ir::op_name(op), ir::dtype_name(type),
                r.error().what.c_str());
    return 1;
  }
  std::printf("%s %s: %" PRIu64 " values, worst %.4f units at %a, %" PRIu64
              " above %g or of a wrong kind; %.1f s\n",
              ir::op_name(op), ir::dtype_name(type), r->values, r->worst, r->worst_at, r->wrong,
              allowed_units(op, type), static_cast<double>(now_ns() - start) / 1e9);
  return r->wrong == 0 ? 0 : 1;
}

int self_proof() {
  struct Defect {
    const char* name;
    Op op;
    SweepDefect defect;
  };
  constexpr Defect kDefects[] = {
      {"results two units too large", Op::kSin, SweepDefect::kTwoUnits},
      {"NaN becomes 0", Op::kLog2, SweepDefect::kLostNan},
      {"the sign of -0 is lost", Op::kSin, SweepDefect::kLostSign},
      {"subnormal results become 0", Op::kExp2, SweepDefect::kLostSubnormals}};
  int found = 0;
  for (const Defect& d : kDefects) {
    const Sweep s = whole_sweep(d.op, DType::kF32, uint64_t{1} << 14, 0);
    const auto r = run_sweep(s, testing::host_options(), d.defect);
    const bool is_found = r.ok() && r->wrong > 0;
    found += is_found ? 1 : 0;
    std::printf("ulp-sweep: defect %s: %s\n", d.name, is_found ? "found" : "NOT FOUND");
  }
  std::printf("self-proof: %d of %zu defects found\n", found, std::size(kDefects));
  return found == static_cast<int>(std::size(kDefects)) ? 0 : 1;
}

int main_of(int argc, char** argv) {
  uint64_t stride = 1, count = 20'000'000;
  std::string op = "all";
  bool proof = false;
  CLI::App app("ulp-sweep: transcendental functions of generated code, value by value");
  app.add_option("--op", op, "exp2, log2, sin or all");
  app.add_option("--stride", stride, "every how manyth f32")->check(CLI::Range(1, 1 << 30));
  app.add_option("--count", count, "values of f64");
  app.add_flag("--self-proof", proof, "spoil results in one way at a time");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (proof) return self_proof();
  int findings = 0, sweeps = 0;
  for (const Op o : kOps) {
    if (op != "all" && op != ir::op_name(o)) continue;
    for (const DType t : {DType::kF16, DType::kBF16, DType::kF64, DType::kF32}) {
      findings += sweep(o, t, t == DType::kF32 ? stride : 1, count);
      ++sweeps;
    }
  }
  std::printf("%d sweeps, %d findings\n", sweeps, findings);
  return findings == 0 && sweeps > 0 ? 0 : 1;
}

}  // namespace
}  // namespace modeld::ops

int main(int argc, char** argv) {
  return modeld::ops::main_of(argc, argv);
}
