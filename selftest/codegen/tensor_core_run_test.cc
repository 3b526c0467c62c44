// Matrix units of the CPU for real: kernels with TC compiled and run on a machine that has the
// unit, against plain sums of products; and the table against the text renderers have for it.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "hal/target.h"

#include "runtime/codegen/lower.h"
#include "runtime/codegen/tensor_cores.h"
#include "runtime/render/render_cpu.h"
#include "runtime/render/wmma_text.h"

#include "selftest/testing/compiled_kernel.h"
#include "selftest/testing/kernel_builder.h"
#include "selftest/testing/kernel_interp.h"

namespace modeld::codegen {
namespace {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::OptOp;
using testing::KernelBatch;
using testing::KernelBuilder;
using testing::KernelStorage;
using N = const Node*;

// ---- the table and the text ----

hal::Target target_of(const TensorCore& c) {
  const std::string kind = c.kind;
  const std::string text =
      kind == "cpu" ? std::string("cpu:x86-64-v4+") + c.needs : kind + ":" + c.needs;
  return *hal::parse_target(text);
}

TEST(TensorCoreText, EveryDeclaredRowHasItsFunctionWhereTheTargetHasTheUnit) {
  for (const TensorCore& c : tensor_core_table()) {
    const std::string call = std::string("wmma_") + c.name + "(";
    const std::string text = render::wmma_functions(target_of(c));
    EXPECT_EQ(text.find(call) != std::string::npos, c.declared) << c.name;
  }
}

TEST(TensorCoreText, ATargetWithoutTheUnitGetsNoText) {
  for (const char* t : {"cpu:x86-64", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:aarch64", "cl"}) {
    EXPECT_EQ(render::wmma_functions(*hal::parse_target(t)), "") << t;
  }
  const auto prelude = render::cpu_prelude(*hal::parse_target("cpu:x86-64-v4"));
  EXPECT_EQ(prelude.find("wmma"), std::string::npos);
}

// ---- running ----

enum class BLayout : uint8_t { kRows, kTransposed };

struct Case {
  const char* core;
  int64_t m, n, k;
  BLayout layout;
  ir::Opts opts;
};

N matmul(KernelBuilder& b, const TensorCore& c, const Case& s) {
  N i = b.loop(s.m), j = b.loop(s.n), r = b.reduce_loop(s.k);
  N x = b.at(b.param(1, s.m * s.k, c.a), b.add(b.times(i, s.k), r));
  N at = s.layout == BLayout::kTransposed ? b.add(b.times(j, s.k), r) : b.add(b.times(r, s.n), j);
  N y = b.at(b.param(2, s.k * s.n, c.b), at);
  N sum = b.reduce(Op::kAdd, b.mul(ir::cast(b.g, x, c.c), ir::cast(b.g, y, c.c)), {r});
  ir::KernelInfo info;
  info.opts_to_apply = s.opts;
  return b.kernel(b.param(0, s.m * s.n, c.c), b.add(b.times(i, s.n), j), sum, {i, j}, info);
}

// Whole ranges of the integers, extremes included; halves whose sums are exact.
KernelStorage filled(DType t, int64_t size, uint32_t seed) {
  KernelStorage s = KernelStorage::of(t, static_cast<size_t>(size));
  std::mt19937 rng(seed);
  for (double& v : s.f) v = static_cast<double>(static_cast<int>(rng() % 33) - 16);
  for (int64_t& v : s.i) v = ir::wrap_to(t, static_cast<int64_t>(rng()));
  for (size_t i = 0; i < s.i.size(); i += 7) s.i[i] = i % 2 != 0 ? ir::int_min(t) : ir::int_max(t);
  return s;
}

std::vector<Case> cases() {
  std::vector<Case> out;
  const auto tc = [](int64_t level) { return ir::Opt{OptOp::kTc, 0, tc_number({-1, level, 1})}; };
  for (const char* core : {"avx512_u8_i8", "avx512_i8_u8", "avx512_bf16"}) {
    for (BLayout l : {BLayout::kRows, BLayout::kTransposed}) {
      out.push_back({core, 2, 16, 4, l, {tc(0)}});
      out.push_back({core, 6, 48, 64, l, {tc(0), {OptOp::kUpcast, 0, 3}}});
      out.push_back({core,
                     8,
                     64,
                     128,
                     l,
                     {tc(0),
                      {OptOp::kUpcast, 0, 4},
                      {OptOp::kUpcast, 1, 2},
                      {OptOp::kUnroll, 0, 2},
                      {OptOp::kThread, 0, 2}}});
      out.push_back({core, 5, 33, 19, l, {tc(2)}});
      out.push_back({core, 7, 17, 5, l, {tc(2), {OptOp::kUpcast, 0, 7}}});
    }
  }
  return out;
}

TEST(TensorCoreRun, UnitsOfThisMachineMultiplyExactly) {
  const CodegenOptions o = testing::host_options();
  if (o.caps.tensor_cores.empty()) GTEST_SKIP() << "this CPU has no matrix unit of the table";
  CodegenOptions threads = o;
  threads.target.threads = 2;
  Graph g;
  KernelBatch batch;
  std::vector<Case> ran;
  std::vector<N> asts;
  for (const Case& c : cases()) {
    const auto& names = o.caps.tensor_cores;
    if (std::find(names.begin(), names.end(), c.core) == names.end()) continue;
    KernelBuilder b(g);
    N ast = matmul(b, *find_tensor_core(c.core), c);
    auto k = batch.add(g, ast, threads);
    ASSERT_TRUE(k.ok()) << c.core << ": " << k.error().what;
    const std::string call = std::string("wmma_") + c.core + "(";
    ASSERT_NE(batch.program(*k).source.find(call), std::string::npos);
    ran.push_back(c);
    asts.push_back(ast);
  }
  ASSERT_FALSE(ran.empty());
  const Status built = batch.build();
  ASSERT_TRUE(built.ok()) << built.error().what;
  for (size_t at = 0; at < ran.size(); ++at) {
    const Case& c = ran[at];
    const TensorCore& core = *find_tensor_core(c.core);
    SCOPED_TRACE(strf("%s %lldx%lldx%lld case %zu", c.core, static_cast<long long>(c.m),
                      static_cast<long long>(c.n), static_cast<long long>(c.k), at));
    KernelStorage a = filled(core.a, c.m * c.k, 3);
    KernelStorage b = filled(core.b, c.k * c.n, 4);
    KernelStorage want = KernelStorage::of(core.c, static_cast<size_t>(c.m * c.n));
    KernelStorage got = want;
    KernelStorage* plain[] = {&want, &a, &b};
    KernelStorage* fast[] = {&got, &a, &b};
    ASSERT_TRUE(testing::run_kernel(g, asts[at], plain).ok());
    const Status ok = batch.run(at, fast, {}, at % 3);
    ASSERT_TRUE(ok.ok()) << ok.error().what;
    for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got.at(i), want.at(i)) << "element " << i;
  }
}

}  // namespace
}  // namespace modeld::codegen
