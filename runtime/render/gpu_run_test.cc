// Kernels whose opts only a renderer with work groups has, run and compared with the interpreter of
// ASTs: grouped reduces, locals, images off and on. Linked once with the interpreter of work groups
// and once with OpenCL (selftest/testing/compiled_kernel.h).
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runtime/ir/derived.h"

#include "selftest/testing/compiled_kernel.h"
#include "selftest/testing/gpu_kernels.h"

namespace modeld {
namespace {

using ir::DType;
using ir::Op;
using ir::OptOp;
using testing::host_options;
using testing::KernelBatch;
using testing::KernelBuilder;
using testing::KernelStorage;
using N = const ir::Node*;

struct Case {
  std::string name;
  N ast;
  double tolerance = 2e-6;
  int outputs = 1;
};

// Arguments in slot order: small multiples of 1/32, so that sums in any order agree closely.
std::vector<KernelStorage> seeded(ir::Graph& g, N ast, uint32_t seed) {
  std::map<int64_t, N> params;
  for (N n : ir::toposort(ast)) {
    if (n->op == Op::kParam) params[n->as<ir::ParamArg>().slot] = n;
  }
  std::mt19937 rng(seed);
  std::vector<KernelStorage> out;
  for (const auto& [slot, p] : params) {
    KernelStorage s = KernelStorage::of(p->dtype, static_cast<size_t>(ir::element_count(g, p)));
    for (double& v : s.f) v = static_cast<double>(static_cast<int>(rng() % 257) - 128) / 32;
    for (int64_t& v : s.i) v = ir::wrap_to(p->dtype, static_cast<int64_t>(rng() % 41) - 20);
    out.push_back(std::move(s));
  }
  return out;
}

std::vector<KernelStorage*> pointers(std::vector<KernelStorage>& v) {
  std::vector<KernelStorage*> out;
  for (KernelStorage& s : v) out.push_back(&s);
  return out;
}

void expect_close(const KernelStorage& got, const KernelStorage& want, const Case& c) {
  double scale = 1;
  for (size_t n = 0; n < want.size(); ++n) scale = std::max(scale, std::fabs(want.at(n)));
  for (size_t n = 0; n < want.size(); ++n) {
    const double limit = ir::is_float(want.dtype) ? c.tolerance * scale : 0;
    ASSERT_LE(std::fabs(got.at(n) - want.at(n)), limit)
        << c.name << " element " << n << ": " << got.at(n) << " wanted " << want.at(n);
  }
}

void run_cases(ir::Graph& g,
               const std::vector<Case>& cases,
               const codegen::CodegenOptions& options = host_options()) {
  ASSERT_TRUE(g.status().ok()) << g.status().error().what;
  KernelBatch batch;
  for (const Case& c : cases) {
    const auto k = batch.add(g, c.ast, options);
    ASSERT_TRUE(k.ok()) << c.name << ": " << k.error().what;
  }
  const Status built = batch.build();
  ASSERT_TRUE(built.ok()) << built.error().what;
  for (size_t k = 0; k < cases.size(); ++k) {
    std::vector<KernelStorage> want = seeded(g, cases[k].ast, 11);
    const Status truth = testing::run_kernel(g, cases[k].ast, pointers(want));
    ASSERT_TRUE(truth.ok()) << cases[k].name << ": " << truth.error().what;
    std::vector<KernelStorage> got = seeded(g, cases[k].ast, 11);
    const Status ran = batch.run(k, pointers(got));
    ASSERT_TRUE(ran.ok()) << cases[k].name << ": " << ran.error().what;
    for (int o = 0; o < cases[k].outputs; ++o) {
      expect_close(got[static_cast<size_t>(o)], want[static_cast<size_t>(o)], cases[k]);
    }
  }
}

std::string name_of(const ir::Opts& opts) {
  return ir::opts_text(opts);
}

TEST(GpuRun, GroupedSums) {
  ir::Graph g;
  std::vector<Case> cases;
  const std::vector<ir::Opts> recipes = {
      {{OptOp::kGroupTop, 0, 16}},
      {{OptOp::kGroup, 0, 8}},
      {{OptOp::kGroup, 0, 0}},
      {{OptOp::kGroup, 0, 4}, {OptOp::kGroupTop, 0, 4}},
      {{OptOp::kGroup, 0, 8}, {OptOp::kUpcast, 0, 4}},
      {{OptOp::kGroup, 0, 8}, {OptOp::kLocal, 0, 4}},
      {{OptOp::kGroup, 0, 8},
       {OptOp::kLocal, 0, 2},
       {OptOp::kUpcast, 0, 2},
       {OptOp::kUnroll, 0, 4}},
      {{OptOp::kGroupTop, 0, 4}, {OptOp::kUnroll, 0, 4}},
  };
  for (const ir::Opts& opts : recipes) {
    KernelBuilder b(g);
    cases.push_back({"sum " + name_of(opts), testing::row_reduce(b, 8, 64, opts)});
    KernelBuilder m(g);
    cases.push_back({"max " + name_of(opts), testing::row_reduce(m, 8, 64, opts, Op::kMax)});
    KernelBuilder i(g);
    cases.push_back(
        {"int " + name_of(opts), testing::row_reduce(i, 8, 64, opts, Op::kAdd, DType::kI32)});
  }
  for (int64_t rows : {1, 3}) {
    KernelBuilder b(g);
    cases.push_back({"few rows", testing::row_reduce(b, rows, 96, {{OptOp::kGroup, 0, 3}})});
  }
  run_cases(g, cases);
}

TEST(GpuRun, TwoReducesShareTheirGroup) {
  ir::Graph g;
  std::vector<Case> cases;
  for (const ir::Opts& opts : {ir::Opts{{OptOp::kGroup, 0, 8}},
                               ir::Opts{{OptOp::kGroupTop, 0, 4}, {OptOp::kLocal, 0, 5}}}) {
    KernelBuilder b(g);
    cases.push_back({"variance " + name_of(opts), testing::variance(b, 5, 64, opts), 1e-5});
  }
  run_cases(g, cases);
}

TEST(GpuRun, TilesInLoopsAreNotOverwrittenTooEarly) {
  ir::Graph g;
  KernelBuilder b(g);
  run_cases(
      g, {{"loops", testing::sums_in_loops(b, 64, {{OptOp::kGroup, 0, 8}, {OptOp::kGroup, 1, 8}}),
           2e-6, 2}});
}

TEST(GpuRun, ProductsWithLocalsGroupsAndPads) {
  ir::Graph g;
  std::vector<Case> cases;
  const std::vector<ir::Opts> recipes = {
      {{OptOp::kLocal, 0, 4}, {OptOp::kLocal, 1, 8}},
      {{OptOp::kUpcast, 1, 4},
       {OptOp::kUpcast, 0, 4},
       {OptOp::kUnroll, 0, 4},
       {OptOp::kLocal, 0, 3}},
      {{OptOp::kGroup, 0, 8}, {OptOp::kLocal, 1, 4}, {OptOp::kUpcast, 1, 4}},
      {{OptOp::kPadTo, 0, 16}, {OptOp::kLocal, 0, 16}},
      {{OptOp::kPadTo, 2, 32}, {OptOp::kGroup, 0, 16}},
      {{OptOp::kSwap, 0, 1}, {OptOp::kLocal, 0, 2}},
      {{OptOp::kNoLocals, 0, 0}},
  };
  for (const ir::Opts& opts : recipes) {
    KernelBuilder b(g);
    cases.push_back({name_of(opts), testing::product(b, 12, 16, 24, opts)});
  }
  run_cases(g, cases);
}

// What the heuristic chooses by itself, over shapes with and without remainders.
TEST(GpuRun, HeuristicsChoice) {
  ir::Graph g;
  std::vector<Case> cases;
  const auto product = [&](int64_t m, int64_t n, int64_t k) {
    KernelBuilder b(g);
    cases.push_back({"product", g.with_arg(testing::product(b, m, n, k, {}), ir::KernelInfo{})});
  };
  product(32, 48, 16);
  product(33, 7, 5);
  product(1, 64, 64);
  product(1, 37, 19);
  for (int64_t cols : {16, 64, 100, 1000}) {
    KernelBuilder b(g);
    cases.push_back({"rows", g.with_arg(testing::row_reduce(b, 6, cols, {}), ir::KernelInfo{})});
  }
  run_cases(g, cases);
}

TEST(GpuRun, HalfBuffersInGlobalAndLocalMemory) {
  ir::Graph g;
  std::vector<Case> cases;
  for (DType t : {DType::kF16, DType::kBF16}) {
    KernelBuilder b(g);
    cases.push_back({"max of halves",
                     testing::row_reduce(b, 8, 64, {{OptOp::kGroup, 0, 8}, {OptOp::kUpcast, 0, 4}},
                                         Op::kMax, t)});
    KernelBuilder c(g);
    N i = c.loop(64);
    N x = ir::cast(g, c.at(c.param(1, 64, t), i), DType::kF32);
    N y = ir::cast(g, c.add(c.mul(x, c.f(0.3)), c.f(1)), t);
    cases.push_back({"scaled halves", c.kernel(c.param(0, 64, t), i, y, {i}), 8e-3});
  }
  run_cases(g, cases);
}

// The functions a device brings itself; OpenCL asks them to be within 4 ULP.
TEST(GpuRun, NativeTranscendentals) {
  codegen::CodegenOptions o = host_options();
  o.caps.has_exp2 = o.caps.has_log2 = o.caps.has_sin = true;
  ir::Graph g;
  std::vector<Case> cases;
  for (Op op : {Op::kExp2, Op::kLog2, Op::kSin}) {
    KernelBuilder b(g);
    N i = b.loop(256);
    N x = b.at(b.param(1, 256), i);
    N in = op == Op::kLog2 ? b.add(b.mul(x, x), b.f(0.125)) : x;
    cases.push_back({ir::op_name(op), b.kernel(b.param(0, 256), i, b.unary(op, in), {i})});
  }
  run_cases(g, cases, o);
}

TEST(GpuRun, Images) {
  codegen::CodegenOptions o = host_options();
  o.caps.image = true;
  ir::Graph g;
  std::vector<Case> cases;
  for (int64_t n : {1024, 4 * 64 * 257}) {  // one row; 257 rows of 64 pixels
    KernelBuilder b(g);
    N i = b.loop(n);
    N sum = b.add(b.at(b.param(1, n), i), b.at(b.param(2, n), i));
    cases.push_back({"add", b.kernel(b.param(0, n), i, sum, {i})});
  }
  KernelBuilder h(g);
  N k = h.loop(2048);
  N twice =
      ir::cast(g, h.mul(ir::cast(g, h.at(h.param(1, 2048, DType::kF16), k), DType::kF32), h.f(2)),
               DType::kF16);
  cases.push_back({"halves", h.kernel(h.param(0, 2048, DType::kF16), k, twice, {k}), 2e-3});
  // A pad that moves whole pixels: the gate stays on the image read.
  KernelBuilder p(g);
  N row = p.loop(66), col = p.loop(256);
  N x = p.padded(p.param(1, 64 * 256), p.inside(row, 1, 65),
                 p.add(p.times(p.add(row, p.i(-1)), 256), col));
  cases.push_back({"pad", p.kernel(p.param(0, 66 * 256), p.add(p.times(row, 256), col),
                                   p.add(x, p.f(1)), {row, col})});
  KernelBuilder r(g);
  cases.push_back({"rows", g.with_arg(testing::row_reduce(r, 64, 64, {}), ir::KernelInfo{})});
  run_cases(g, cases, o);
}

}  // namespace
}  // namespace modeld
