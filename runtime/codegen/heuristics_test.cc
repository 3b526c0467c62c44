// The choice of opts, rule by rule: what each step of pipeline hand-book 6.4 takes and leaves, and
// the opts of whole kernels, the reference's figures with our CPU tiling beside them.
#include "runtime/codegen/heuristics.h"

#include <gtest/gtest.h>

#include "runtime/codegen/lower.h"
#include "runtime/codegen/passes.h"
#include "runtime/codegen/tensor_cores.h"

#include "selftest/testing/kernel_builder.h"

namespace modeld::codegen {
namespace {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::Op;
using testing::KernelBuilder;
using N = const Node*;

CodegenOptions options(Heuristic h, int threads = 8) {
  CodegenOptions o = cpu_options(*hal::parse_target("cpu:x86-64-v3"));
  o.target.threads = threads;
  o.heuristic = h;
  return o;
}

std::string chosen(Graph& g, N ast, const CodegenOptions& o) {
  auto r = run_kernel_passes(g, ast, o, true, "apply_opts");
  EXPECT_TRUE(r.ok()) << r.error().what;
  return r.ok() ? ir::opts_text((*r)->as<ir::KernelInfo>().applied_opts) : "";
}

// Opts of a kernel under the reference's steps, one thread.
std::string reference(Graph& g, N ast) {
  return chosen(g, ast, options(Heuristic::kReference, 1));
}

N copy_of(KernelBuilder& b, int64_t n) {
  N i = b.loop(n);
  return b.kernel(b.param(0, n), i, b.at(b.param(1, n), i), {i});
}
N add_of(KernelBuilder& b, int64_t n) {
  N i = b.loop(n);
  return b.kernel(b.param(0, n), i, b.add(b.at(b.param(1, n), i), b.at(b.param(2, n), i)), {i});
}
N fold_rows(KernelBuilder& b, Op op, int64_t rows, int64_t cols) {
  N i = b.loop(rows), r = b.reduce_loop(cols);
  N x = b.at(b.param(1, rows * cols), b.add(b.times(i, cols), r));
  return b.kernel(b.param(0, rows), i, b.reduce(op, x, {r}), {i});
}
N matmul(KernelBuilder& b,
         int64_t m,
         int64_t n,
         int64_t k,
         DType x_type = DType::kF32,
         DType y_type = DType::kF32,
         DType out = DType::kF32) {
  N i = b.loop(m), j = b.loop(n), r = b.reduce_loop(k);
  N x = ir::cast(b.g, b.at(b.param(1, m * k, x_type), b.add(b.times(i, k), r)), out);
  N y = ir::cast(b.g, b.at(b.param(2, k * n, y_type), b.add(b.times(r, n), j)), out);
  return b.kernel(b.param(0, m * n, out), b.add(b.times(i, n), j),
                  b.reduce(Op::kAdd, b.mul(x, y), {r}), {i, j});
}
// One filter per channel.
N depthwise(KernelBuilder& b, int64_t channels, int64_t h, int64_t w, int64_t k) {
  N c = b.loop(channels), y = b.loop(h - k + 1), x = b.loop(w - k + 1);
  N ky = b.reduce_loop(k), kx = b.reduce_loop(k);
  N at = b.add(b.add(b.times(c, h * w), b.times(b.add(y, ky), w)), b.add(x, kx));
  N tap = b.add(b.add(b.times(c, k * k), b.times(ky, k)), kx);
  N v = b.mul(b.at(b.param(1, channels * h * w), at), b.at(b.param(2, channels * k * k), tap));
  const int64_t pixels = (h - k + 1) * (w - k + 1);
  N to = b.add(b.add(b.times(c, pixels), b.times(y, w - k + 1)), x);
  return b.kernel(b.param(0, channels * pixels), to, b.reduce(Op::kAdd, v, {ky, kx}), {c, y, x});
}
// out[i][j] = j inside the pad ? x[i][j - 1] : 0.
N padded_rows(KernelBuilder& b, int64_t rows, int64_t cols) {
  N i = b.loop(rows), j = b.loop(cols);
  N gate = b.inside(j, 1, cols - 1);
  N x =
      b.padded(b.param(1, rows * (cols - 2)), gate, b.add(b.add(b.times(i, cols - 2), j), b.i(-1)));
  return b.kernel(b.param(0, rows * cols), b.add(b.times(i, cols), j), x, {i, j});
}

// ---- the table of 6.4, its CPU column ----

TEST(HandCodedOptimizations, ReferenceTableOfTheCpu) {
  const auto of = [](auto make) {
    Graph g;
    KernelBuilder b(g);
    return chosen(g, make(b), options(Heuristic::kReference));
  };
  EXPECT_EQ(of([](auto& b) { return add_of(b, 1 << 20); }), "[UPCAST(0,4) THREAD(0,8)]");
  EXPECT_EQ(of([](auto& b) { return matmul(b, 512, 512, 512); }),
            "[UPCAST(1,4) UPCAST(0,4) UNROLL(0,4) THREAD(0,8)]");
  EXPECT_EQ(of([](auto& b) { return matmul(b, 1, 512, 512); }), "[UNROLL(0,4) THREAD(0,2)]");
  EXPECT_EQ(of([](auto& b) { return b.conv(32, 64, 66, 66, 3, 0); }),
            "[UPCAST(2,4) UPCAST(0,4) UNROLL(2,0) UNROLL(1,0) THREAD(0,8)]");
  EXPECT_EQ(of([](auto& b) { return depthwise(b, 64, 130, 130, 3); }),
            "[UPCAST(2,4) UNROLL(1,0) UNROLL(0,0) THREAD(0,8)]");
  EXPECT_EQ(of([](auto& b) { return b.conv(32, 64, 64, 64, 1, 0); }),
            "[UPCAST(1,4) UPCAST(0,4) UNROLL(0,0) THREAD(0,8)]");
  EXPECT_EQ(of([](auto& b) { return fold_rows(b, Op::kAdd, 16, 1024); }), "[UNROLL(0,4)]");
  EXPECT_EQ(of([](auto& b) { return fold_rows(b, Op::kMax, 64, 1000); }), "[UNROLL(0,4)]");
}

// The same kernels under our tiling for vector registers: the [D] of 6.4.
TEST(HandCodedOptimizations, CpuFigures) {
  const auto of = [](auto make) {
    Graph g;
    KernelBuilder b(g);
    return chosen(g, make(b), options(Heuristic::kCpu));
  };
  EXPECT_EQ(of([](auto& b) { return add_of(b, 1 << 20); }), "[UPCAST(0,16) THREAD(0,8)]");
  EXPECT_EQ(of([](auto& b) { return matmul(b, 512, 512, 512); }),
            "[UPCAST(1,16) UPCAST(0,4) UNROLL(0,4) THREAD(0,8)]");
  EXPECT_EQ(of([](auto& b) { return matmul(b, 1, 512, 512); }),
            "[UPCAST(0,16) UPCAST(0,4) UNROLL(0,4) THREAD(0,2)]");
  EXPECT_EQ(of([](auto& b) { return b.conv(32, 64, 66, 66, 3, 0); }),
            "[UPCAST(2,16) UPCAST(1,4) UNROLL(2,0) UNROLL(1,0) THREAD(0,8)]");
  EXPECT_EQ(of([](auto& b) { return depthwise(b, 64, 130, 130, 3); }),
            "[UPCAST(2,16) UPCAST(1,4) UNROLL(1,0) UNROLL(0,0) THREAD(0,8)]");
  EXPECT_EQ(of([](auto& b) { return b.conv(32, 64, 64, 64, 1, 0); }),
            "[UPCAST(1,16) UPCAST(1,4) UNROLL(0,4) THREAD(0,8)]");
  EXPECT_EQ(of([](auto& b) { return fold_rows(b, Op::kAdd, 16, 1024); }),
            "[UPCAST(0,4) UNROLL(0,16)]");
  EXPECT_EQ(of([](auto& b) { return fold_rows(b, Op::kMax, 64, 1000); }),
            "[UPCAST(0,4) UNROLL(0,8)]");
}

TEST(HandCodedOptimizations, InputSchedulerIsNotChanged) {
  Graph g;
  KernelBuilder b(g);
  const CodegenOptions o = options(Heuristic::kCpu);
  const Scheduler start(g, matmul(b, 32, 64, 48), o);
  N before = start.optimised_ast("s");
  EXPECT_NE(cpu_heuristic(start).optimised_ast("s"), before);
  EXPECT_NE(hand_coded_optimizations(start).optimised_ast("s"), before);
  EXPECT_EQ(start.optimised_ast("s"), before);
}

TEST(HandCodedOptimizations, AKernelWithAStageIsLeftAlone) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(64), q = b.loop(16);
  N staged = g.make(Op::kStage, DType::kF32, {b.at(b.param(1, 16), q), q}, ir::StageArg{});
  N ast = b.kernel(b.param(0, 64), i, b.at(staged, b.op(Op::kFloorMod, {i, b.i(16)})), {i});
  N out = apply_opts(g, ast, options(Heuristic::kReference));
  ASSERT_TRUE(g.status().ok()) << g.status().error().what;
  EXPECT_TRUE(out->as<ir::KernelInfo>().applied_opts.empty());
}

TEST(HandCodedOptimizations, AKernelThatHasARecipeKeepsIt) {
  Graph g;
  KernelBuilder b(g);
  ir::KernelInfo info;
  info.applied_opts = {{ir::OptOp::kUpcast, 0, 2}};
  N out = apply_opts(g, g.with_arg(copy_of(b, 64), info), options(Heuristic::kReference));
  EXPECT_EQ(out->as<ir::KernelInfo>().applied_opts, info.applied_opts);
}

// ---- steps of a renderer with work groups: 3 matvec, 4 grouping, 9 locals ----

CodegenOptions grid() {
  CodegenOptions o = options(Heuristic::kReference, 1);
  o.caps.has_locals = true;
  o.caps.has_threads = false;
  return o;
}

TEST(HeuristicMatvec, RowsBySixteenAndStepsByEight) {
  const auto of = [](int64_t n, int64_t k) {
    Graph g;
    KernelBuilder b(g);
    return chosen(g, matmul(b, 1, n, k), grid());
  };
  EXPECT_EQ(of(512, 512), "[GROUP(0,8) LOCAL(0,4) UPCAST(0,4)]");
  EXPECT_EQ(of(4096 + 8, 512).find("GROUP"), std::string::npos);  // no multiple of 16
  EXPECT_EQ(of(4096, 508).find("GROUP"), std::string::npos);      // steps no multiple of 8
}

TEST(HeuristicMatvec, NeedsGroupsAndASumOfProducts) {
  Graph g;
  KernelBuilder b(g);
  EXPECT_EQ(reference(g, matmul(b, 1, 512, 512)).find("GROUP"), std::string::npos);
  KernelBuilder c(g);
  EXPECT_EQ(chosen(g, fold_rows(c, Op::kMax, 4096, 512), grid()).find("GROUP"), std::string::npos);
}

TEST(HeuristicGrouping, FewOutputsShareTheirSum) {
  const auto of = [](int64_t rows, int64_t cols, bool nolocals) {
    Graph g;
    KernelBuilder b(g);
    CodegenOptions o = grid();
    o.nolocals = nolocals;
    return chosen(g, fold_rows(b, Op::kAdd, rows, cols), o);
  };
  EXPECT_EQ(of(2048, 1024, false), "[GROUPTOP(0,16)]");
  EXPECT_EQ(of(2049, 1024, false).find("GROUPTOP"), std::string::npos);  // enough work items
  EXPECT_EQ(of(2048, 1000, false).find("GROUPTOP"), std::string::npos);  // 16 does not divide
  EXPECT_EQ(of(241, 1024, true).find("GROUPTOP"), std::string::npos);
}

TEST(HeuristicLocals, ThirtyTwoOnTheFirstAxisOnly) {
  Graph g;
  KernelBuilder b(g);
  EXPECT_EQ(chosen(g, copy_of(b, 1 << 12), grid()), "[UPCAST(0,4) LOCAL(0,32)]");
  KernelBuilder c(g);
  // Axis 1 takes 16 at most, and both together 128 items.
  N i = c.loop(33), j = c.loop(64);
  N v = c.at(c.param(1, 33 * 64), c.add(c.times(j, 33), i));
  N ast = c.kernel(c.param(0, 33 * 64), c.add(c.times(i, 64), j), v, {i, j});
  EXPECT_EQ(chosen(g, ast, grid()), "[UPCAST(1,4) LOCAL(0,3) LOCAL(1,16)]");
}

TEST(HeuristicLocals, NoLocalsSaysSo) {
  Graph g;
  KernelBuilder b(g);
  CodegenOptions o = grid();
  o.nolocals = true;
  EXPECT_EQ(chosen(g, copy_of(b, 1 << 12), o), "[UPCAST(0,4) NOLOCALS]");
}

// ---- step 5: masked axes ----

TEST(HeuristicMasked, SmallMaskedAxesBecomeLanes) {
  Graph g;
  KernelBuilder b(g);
  EXPECT_EQ(reference(g, padded_rows(b, 100, 7)), "[UPCAST(1,0)]");
}

TEST(HeuristicMasked, LargeOrUnmaskedAxesDoNot) {
  Graph g;
  KernelBuilder b(g);
  EXPECT_EQ(reference(g, padded_rows(b, 100, 9)).find("UPCAST(1,0)"), std::string::npos);
  KernelBuilder c(g);
  EXPECT_EQ(reference(g, copy_of(c, 7)), "[]");
}

TEST(HeuristicMasked, LanesStayBelowFifty) {
  Graph g;
  KernelBuilder b(g);
  // Three masked axes of 7: two make 49 lanes, the third stays a loop.
  N i = b.loop(7), j = b.loop(7), k = b.loop(7);
  N gate = ir::land(g, b.inside(i, 1, 6), ir::land(g, b.inside(j, 1, 6), b.inside(k, 1, 6)));
  N at = b.add(b.add(b.times(i, 49), b.times(j, 7)), k);
  N x = b.padded(b.param(1, 343), gate, at);
  N ast = b.kernel(b.param(0, 343), b.add(b.add(b.times(k, 49), b.times(j, 7)), i), x, {i, j, k});
  EXPECT_EQ(reference(g, ast), "[UPCAST(1,0) UPCAST(0,0)]");
}

// ---- step 6: lanes that share loads ----

TEST(HeuristicUpcast, AnAxisSomeOperandIgnoresIsTaken) {
  Graph g;
  KernelBuilder b(g);
  // out[i][j] = x[i] + y[j]: each operand ignores one axis.
  N i = b.loop(64), j = b.loop(64);
  N v = b.add(b.at(b.param(1, 64), i), b.at(b.param(2, 64), j));
  N ast = b.kernel(b.param(0, 4096), b.add(b.times(i, 64), j), v, {i, j});
  EXPECT_EQ(reference(g, ast), "[UPCAST(1,4) UPCAST(0,4)]");
}

TEST(HeuristicUpcast, SmallOutputsAreNot) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(16), j = b.loop(16);  // 256 elements, below 1024
  N v = b.add(b.at(b.param(1, 16), i), b.at(b.param(2, 16), j));
  N ast = b.kernel(b.param(0, 256), b.add(b.times(i, 16), j), v, {i, j});
  EXPECT_EQ(reference(g, ast), "[UPCAST(1,4)]");  // step 8 only
}

TEST(HeuristicUpcast, ThreeIsTakenWhereFourDoesNotDivide) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(63), j = b.loop(66);
  N v = b.add(b.at(b.param(1, 63), i), b.at(b.param(2, 66), j));
  N ast = b.kernel(b.param(0, 63 * 66), b.add(b.times(i, 66), j), v, {i, j});
  EXPECT_EQ(reference(g, ast), "[UPCAST(1,3) UPCAST(0,3)]");
}

// ---- step 7: the last reduce axis ----

TEST(HeuristicUnroll, ShortAxesWhollyLongOnesByFour) {
  Graph g;
  const auto of = [&](int64_t cols) {
    KernelBuilder b(g);
    return reference(g, fold_rows(b, Op::kAdd, 16, cols));
  };
  EXPECT_EQ(of(32), "[UNROLL(0,0)]");
  EXPECT_EQ(of(36), "[UNROLL(0,4)]");
  EXPECT_EQ(of(35), "[UPCAST(0,4)]");  // neither short nor divisible: step 8 instead
}

TEST(HeuristicUnroll, TwoTinyAxesGoTogether) {
  Graph g;
  KernelBuilder b(g);
  EXPECT_NE(reference(g, depthwise(b, 8, 10, 10, 3)).find("UNROLL(1,0) UNROLL(0,0)"),
            std::string::npos);
  KernelBuilder c(g);
  const std::string five = reference(g, depthwise(c, 8, 12, 12, 5));
  EXPECT_NE(five.find("UNROLL(1,0)"), std::string::npos);
  EXPECT_EQ(five.find("UNROLL(0,0)"), std::string::npos);
}

// ---- step 8: nothing upcast ----

TEST(HeuristicVector, TheLastAxisByFourIfItDivides) {
  Graph g;
  KernelBuilder b(g);
  EXPECT_EQ(reference(g, copy_of(b, 64)), "[UPCAST(0,4)]");
  KernelBuilder c(g);
  EXPECT_EQ(reference(g, copy_of(c, 63)), "[]");
}

// ---- step 10: threads ----

TEST(HeuristicThreads, EachThreadMustHaveWork) {
  const auto of = [](int64_t n, int threads) {
    Graph g;
    KernelBuilder b(g);
    CodegenOptions o = options(Heuristic::kReference, threads);
    const std::string text = chosen(g, copy_of(b, n), o);
    const size_t at = text.find("THREAD");
    return at == std::string::npos ? std::string("none") : text.substr(at);
  };
  EXPECT_EQ(of(131072 * 2 - 4, 8), "none");
  EXPECT_EQ(of(131072 * 2, 8), "THREAD(0,2)]");
  EXPECT_EQ(of(131072 * 4, 8), "THREAD(0,4)]");
  EXPECT_EQ(of(131072 * 4, 3), "THREAD(0,2)]");  // no more than the target has; 3 does not divide
  EXPECT_EQ(of(131072 * 64, 64), "THREAD(0,32)]");
  EXPECT_EQ(of(131072 * 6 + 4, 8), "none");  // 196609 does not divide by any of them
}

TEST(HeuristicThreads, ARendererWithoutThreadsGetsNone) {
  Graph g;
  KernelBuilder b(g);
  CodegenOptions o = options(Heuristic::kReference);
  o.caps.has_threads = false;
  EXPECT_EQ(chosen(g, copy_of(b, 1 << 20), o), "[UPCAST(0,4)]");
}

// ---- step 1: tensor cores ----

CodegenOptions with_cores(Heuristic h, std::vector<std::string> cores) {
  CodegenOptions o = options(h, 1);
  o.caps.has_locals = true;
  o.caps.has_threads = false;
  o.caps.tensor_cores = std::move(cores);
  return o;
}

TEST(HeuristicTensorCore, RowsAndColumnsAreUpcastAndColumnsShared) {
  Graph g;
  KernelBuilder b(g);
  const CodegenOptions o = with_cores(Heuristic::kReference, {"rdna3_f16_f32"});
  N ast = matmul(b, 16 * 5, 16 * 12, 64, DType::kF16, DType::kF16);
  EXPECT_EQ(chosen(g, ast, o), "[TC(0,1) UPCAST(0,5) UPCAST(0,4)]");
}

TEST(HeuristicTensorCore, OffByOptionOrWithoutAMatch) {
  Graph g;
  KernelBuilder b(g);
  N ast = matmul(b, 64, 64, 64, DType::kF16, DType::kF16);
  CodegenOptions off = with_cores(Heuristic::kReference, {"rdna3_f16_f32"});
  off.tc = 0;
  EXPECT_EQ(chosen(g, ast, off).find("TC"), std::string::npos);
  const CodegenOptions o = with_cores(Heuristic::kReference, {"rdna3_f16_f32"});
  EXPECT_EQ(chosen(g, matmul(b, 64, 64, 64), o).find("TC"), std::string::npos);
}

// The CPU's own rule: whole products of bytes, tall tiles, threads as everywhere.
TEST(HeuristicTensorCore, BytesOnTheCpu) {
  const auto of = [](int64_t m, int64_t n, int64_t k, int threads) {
    Graph g;
    KernelBuilder b(g);
    CodegenOptions o = options(Heuristic::kCpu, threads);
    o.caps.tensor_cores = {"avx512_u8_i8", "avx512_i8_u8"};
    return chosen(g, matmul(b, m, n, k, DType::kU8, DType::kI8, DType::kI32), o);
  };
  EXPECT_EQ(of(240, 256, 256, 1), "[TC(0,1) UPCAST(0,12) UPCAST(1,2)]");
  EXPECT_EQ(of(240, 256, 256, 2), "[TC(0,1) UPCAST(0,12) UPCAST(1,2) THREAD(0,2)]");
  EXPECT_EQ(of(20, 64, 32, 1), "[TC(0,1) UPCAST(0,5) UPCAST(1,4)]");
  EXPECT_EQ(of(20, 60, 32, 1).find("TC"), std::string::npos);  // no multiple of 16, no padding
  EXPECT_EQ(of(20, 64, 30, 1).find("TC"), std::string::npos);  // no multiple of 4
}

TEST(HeuristicTensorCore, FloatsOnTheCpuAreWhatTheyWere) {
  const auto of = [](std::vector<std::string> cores, DType in) {
    Graph g;
    KernelBuilder b(g);
    CodegenOptions o = options(Heuristic::kCpu);
    o.caps.tensor_cores = std::move(cores);
    return chosen(g, matmul(b, 64, 64, 64, in, in), o);
  };
  for (DType in : {DType::kF32, DType::kF16, DType::kBF16}) {
    EXPECT_EQ(of({"avx512_u8_i8", "avx512_i8_u8", "avx512_bf16"}, in), of({}, in));
  }
}

// Results must be contiguous along the unit's columns: where they are along its rows, the factors
// change places.
TEST(HeuristicTensorCore, TheContiguousAxisIsTheUnitsColumns) {
  Graph g;
  KernelBuilder b(g);
  CodegenOptions o = options(Heuristic::kCpu, 1);
  o.caps.tensor_cores = {"avx512_u8_i8", "avx512_i8_u8"};
  N i = b.loop(64), j = b.loop(48), r = b.reduce_loop(32);
  N x = ir::cast(g, b.at(b.param(1, 64 * 32, DType::kU8), b.add(b.times(i, 32), r)), DType::kI32);
  N y = ir::cast(g, b.at(b.param(2, 32 * 48, DType::kI8), b.add(b.times(r, 48), j)), DType::kI32);
  N ast = b.kernel(b.param(0, 64 * 48, DType::kI32), b.add(b.times(j, 64), i),
                   b.reduce(Op::kAdd, b.mul(x, y), {r}), {i, j});
  EXPECT_EQ(chosen(g, ast, o), "[TC(1,1) UPCAST(1,12) UPCAST(0,2)]");
}

}  // namespace
}  // namespace modeld::codegen
