// What the rule makes of products of halves for AMD's matrix units, lowered to the end and executed
// wave by wave by the layouts of the hardware (selftest/testing/unit_layout).
#include <gtest/gtest.h>

#include <random>

#include "runtime/codegen/linearize.h"
#include "runtime/codegen/lower.h"
#include "runtime/codegen/program_info.h"

#include "selftest/testing/compiled_kernel.h"
#include "selftest/testing/kernel_builder.h"
#include "selftest/testing/program_interp.h"

namespace modeld {
namespace {

using ir::DType;
using ir::Op;
using ir::OptOp;
using testing::KernelBatch;
using testing::KernelBuilder;
using testing::KernelStorage;
using N = const ir::Node*;

struct Shape {
  int64_t m, n, k;
};

// out[i][j] = sum over r of x[i][r] * y[r][j], in single precision; bias and ReLU behind it.
N product(KernelBuilder& b, const Shape& s, DType in) {
  N i = b.loop(s.m), j = b.loop(s.n), r = b.reduce_loop(s.k);
  N x = b.at(b.param(1, s.m * s.k, in), b.add(b.times(i, s.k), r));
  N y = b.at(b.param(2, s.k * s.n, in), b.add(b.times(r, s.n), j));
  N sum =
      b.reduce(Op::kAdd, b.mul(ir::cast(b.g, x, DType::kF32), ir::cast(b.g, y, DType::kF32)), {r});
  N out = b.op(Op::kMax, {b.add(sum, b.at(b.param(3, s.n), j)), b.f(0)});
  return b.kernel(b.param(0, s.m * s.n), b.add(b.times(i, s.n), j), out, {i, j});
}

// Sums of these are exact in any order.
KernelStorage counted(DType t, int64_t n, uint32_t seed) {
  KernelStorage s = KernelStorage::of(t, static_cast<size_t>(n));
  std::mt19937 rng(seed);
  for (double& v : s.f) v = static_cast<double>(rng() % 17) - 8;
  return s;
}

TEST(MatrixUnitRun, TheRulesChoiceMultipliesOnEveryAmdTarget) {
  for (const char* target : {"amd:gfx1100", "amd:gfx1201"}) {
    for (const DType in : {DType::kF16, DType::kBF16}) {
      for (const Shape& s : {Shape{16, 16, 16}, {32, 64, 48}, {80, 48, 32}, {16, 128, 64}}) {
        SCOPED_TRACE(strf("%s %s %lldx%lldx%lld", target, ir::dtype_name(in),
                          static_cast<long long>(s.m), static_cast<long long>(s.n),
                          static_cast<long long>(s.k)));
        ir::Graph g;
        KernelBuilder b(g);
        N ast = product(b, s, in);
        KernelBatch batch;
        const auto k = batch.add(g, ast, codegen::gpu_options(*hal::parse_target(target)));
        ASSERT_TRUE(k.ok()) << k.error().what;
        const codegen::Program& p = batch.program(*k);
        ASSERT_EQ(p.applied_opts.at(0).op, OptOp::kTc) << ir::opts_text(p.applied_opts);
        EXPECT_EQ(p.info.local_size[0], 32) << "a wave is consecutive items";
        KernelStorage x = counted(in, s.m * s.k, 1), y = counted(in, s.k * s.n, 2);
        KernelStorage bias = counted(DType::kF32, s.n, 3);
        KernelStorage got = KernelStorage::of(DType::kF32, static_cast<size_t>(s.m * s.n));
        KernelStorage want = got;
        KernelStorage* args[] = {&got, &x, &y, &bias};
        KernelStorage* truth[] = {&want, &x, &y, &bias};
        const Status ran = batch.run(*k, args);
        ASSERT_TRUE(ran.ok()) << ran.error().what;
        ASSERT_TRUE(testing::run_kernel(g, ast, truth).ok());
        for (size_t e = 0; e < want.size(); ++e) ASSERT_EQ(got.f[e], want.f[e]) << e;
      }
    }
  }
}

TEST(MatrixUnitRun, OtherTargetsAndTypesHaveNone) {
  const auto first = [](const char* target, DType in) {
    ir::Graph g;
    KernelBuilder b(g);
    KernelBatch batch;
    const auto k = batch.add(g, product(b, {32, 32, 32}, in),
                             codegen::gpu_options(*hal::parse_target(target)));
    EXPECT_TRUE(k.ok());
    return batch.program(*k).applied_opts.at(0).op;
  };
  EXPECT_NE(first("cl", DType::kF16), OptOp::kTc);
  EXPECT_NE(first("amd:gfx1100", DType::kF32), OptOp::kTc);
}

// The interpreter must see what a device would not forgive.
TEST(MatrixUnitRun, AGroupWithoutWholeWavesIsFound) {
  ir::Graph g;
  KernelBuilder b(g);
  const codegen::CodegenOptions o = codegen::gpu_options(*hal::parse_target("amd:gfx1100"));
  const auto sink =
      codegen::full_rewrite_to_sink(g, product(b, {16, 16, 16}, DType::kF16), o, true);
  ASSERT_TRUE(sink.ok()) << sink.error().what;
  ir::ProgramInfo info = codegen::program_info(g, *sink, "k");
  const ir::NodeVec linear = codegen::linearize(g, *sink);
  KernelStorage x = counted(DType::kF16, 256, 1), y = counted(DType::kF16, 256, 2);
  KernelStorage bias = counted(DType::kF32, 16, 3), out = KernelStorage::of(DType::kF32, 256);
  KernelStorage* args[] = {&out, &x, &y, &bias};
  EXPECT_TRUE(testing::run_program(g, linear, info, args).ok());
  info.local_size[0] = 24;
  const Status ran = testing::run_program(g, linear, info, args);
  ASSERT_FALSE(ran.ok());
  EXPECT_NE(ran.error().what.find("whole waves"), std::string::npos) << ran.error().what;
}

}  // namespace
}  // namespace modeld
