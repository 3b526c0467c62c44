// Tensor cores: the table, the match, and WMMA against plain sums of products. The interpreter
// executes WMMA by the hardware's own layouts (selftest/testing/unit_layout), so a product comes
// out right only if opts and swizzles of the table say where the hardware keeps the numbers.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/lower.h"
#include "runtime/codegen/passes.h"
#include "runtime/codegen/scheduler.h"
#include "runtime/codegen/tensor_cores.h"
#include "runtime/codegen/to_program.h"
#include "runtime/ir/print.h"

#include "selftest/testing/kernel_builder.h"
#include "selftest/testing/kernel_interp.h"

namespace modeld::codegen {
namespace {

using ir::AxisType;
using ir::DType;
using ir::Fault;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::OptOp;
using testing::KernelBuilder;
using testing::KernelStorage;
using N = const Node*;

// A renderer that has only this unit.
CodegenOptions with_core(const TensorCore& core) {
  CodegenOptions o = cpu_options(*hal::parse_target("cpu:x86-64-v3"));
  o.caps.has_locals = core.threads > 1;
  o.caps.tensor_cores = {core.name};
  return o;
}

struct Shape {
  int64_t m, n, k;
};

struct Layout {
  bool b_transposed = false;  // B[j][k] instead of B[k][j]
  bool swapped = false;       // B * A instead of A * B
};

// C[i][j] = sum over k of A[i][k] * B[k][j], in the types of a core.
N matmul(KernelBuilder& b, const TensorCore& c, const Shape& s, Layout layout = {}) {
  N i = b.loop(s.m), j = b.loop(s.n), r = b.reduce_loop(s.k);
  N x = b.at(b.param(1, s.m * s.k, c.a), b.add(b.times(i, s.k), r));
  N at = layout.b_transposed ? b.add(b.times(j, s.k), r) : b.add(b.times(r, s.n), j);
  N y = b.at(b.param(2, s.k * s.n, c.b), at);
  N p = ir::cast(b.g, x, c.c), q = ir::cast(b.g, y, c.c);
  N product = layout.swapped ? b.mul(q, p) : b.mul(p, q);
  return b.kernel(b.param(0, s.m * s.n, c.c), b.add(b.times(i, s.n), j),
                  b.reduce(Op::kAdd, product, {r}), {i, j});
}

KernelStorage filled(DType t, int64_t size, uint32_t seed) {
  KernelStorage s = KernelStorage::of(t, static_cast<size_t>(size));
  std::mt19937 rng(seed);
  for (double& v : s.f) v = static_cast<double>(rng() % 17) - 8;  // sums of these are exact
  for (int64_t& v : s.i) v = ir::wrap_to(t, static_cast<int64_t>(rng()));
  return s;
}

struct Executed {
  KernelStorage c, a, b;
};

Executed executed(Graph& g, N ast, const TensorCore& core, const Shape& s) {
  Executed run{KernelStorage::of(core.c, static_cast<size_t>(s.m * s.n)),
               filled(core.a, s.m * s.k, 1), filled(core.b, s.k * s.n, 2)};
  KernelStorage* args[] = {&run.c, &run.a, &run.b};
  const Status ok = testing::run_kernel(g, ast, args);
  EXPECT_TRUE(ok.ok()) << (ok.ok() ? "" : ok.error().what);
  return run;
}

void expect_equal(const KernelStorage& got, const KernelStorage& want, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got.at(i), want.at(i)) << what << " " << i;
}

int64_t count(N root, Op op) {
  int64_t n = 0;
  for (N s : ir::toposort(root)) n += s->op == op ? 1 : 0;
  return n;
}

int64_t tc(int64_t level, int64_t use = 1) {
  return tc_number({-1, level, use});
}

// The AST after TC, or null with a test failure.
N with_tc(Graph& g, N ast, const CodegenOptions& o, const ir::Opts& opts) {
  Scheduler s(g, ast, o);
  s.convert_weak_to_global();
  for (const ir::Opt& opt : opts) {
    const Status ok = s.apply_opt(opt);
    EXPECT_TRUE(ok.ok()) << ir::opt_text(opt) << (ok.ok() ? "" : ok.error().what);
  }
  return s.optimised_ast("r");
}

TEST(TensorCoreTable, EveryRowIsConsistent) {
  std::set<std::string> names;
  for (const TensorCore& c : tensor_core_table()) {
    const Status ok = check_tensor_core(c);
    EXPECT_TRUE(ok.ok()) << (ok.ok() ? "" : ok.error().what);
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    EXPECT_EQ(find_tensor_core(c.name), &c);
  }
  EXPECT_EQ(find_tensor_core("none"), nullptr);
}

TEST(TensorCoreTable, AWrongRowIsFound) {
  const TensorCore good = *find_tensor_core("rdna3_f16_f32");
  const auto refused = [&](const char* words, auto change) {
    TensorCore bad = good;
    change(bad);
    const Status ok = check_tensor_core(bad);
    ASSERT_FALSE(ok.ok()) << words;
    EXPECT_NE(ok.error().what.find(words), std::string::npos) << ok.error().what;
  };
  refused("power of two", [](auto& c) { c.k = 12; });
  refused("N * M results", [](auto& c) { c.m = 8; });
  refused("make the threads", [](auto& c) { c.threads = 16; });
  refused("result's elements", [](auto& c) { c.c_elements = 16; });
  refused("wrong number of splits of N", [](auto& c) {
    c.n = 8;
    c.m = 32;
  });
  refused("a swizzle of 12 bits permutes 11",
          [](auto& c) { c.swizzle_b = "l0 l1 l2 l3 l4 | u0 u1 u2 | r0 r1 r2"; });
  refused("a swizzle of 12 bits",
          [](auto& c) { c.swizzle_b = "l0 l0 l2 l3 l4 | u0 u1 u2 | r0 r1 r2 r3"; });
  refused("which no opt makes",
          [](auto& c) { c.swizzle_b = "l0 l1 l2 l3 l5 | u0 u1 u2 | r0 r1 r2 r3"; });
  refused("none of l0 l1 u0 u1", [](auto& c) { c.opts = "l0 l0 l0 l0 l2 u1 u1 u1"; });
  // Without the swizzle A would need register bits of M that it does not hold.
  refused("operand A needs u0",
          [](auto& c) { c.swizzle_a = "l0 l1 l2 l3 l4 | u0 u1 u2 | r0 r1 r2 r3"; });
  refused("operand A needs r3", [](auto& c) { c.a_elements = 8; });
}

TEST(TensorCoreTable, TargetsHaveTheRowsTheirFeaturesAllow) {
  using Names = std::vector<std::string>;
  const auto of = [](const char* text) { return tensor_cores_of(*hal::parse_target(text)); };
  EXPECT_EQ(of("cpu:x86-64-v4"), Names{});
  EXPECT_EQ(of("cpu:x86-64-v4+avx512vnni"), (Names{"avx512_u8_i8", "avx512_i8_u8"}));
  EXPECT_EQ(of("cpu:x86-64-v4+avx512bf16"), Names{"avx512_bf16"});
  EXPECT_EQ(of("cpu:aarch64"), Names{});
  EXPECT_EQ(of("amd:gfx1100"), (Names{"rdna3_f16_f32", "rdna3_f16_f16", "rdna3_bf16_f32"}));
  EXPECT_EQ(of("amd:gfx1201"), (Names{"rdna4_f16_f32", "rdna4_f16_f16", "rdna4_bf16_f32"}));
  // No renderer can print tiles: the rows say what they would be and nobody may choose them.
  EXPECT_EQ(of("cpu:x86-64-v4+amx-int8+amx-bf16"), Names{});
  hal::Target machine_code = *hal::parse_target("cpu:x86-64-v4+avx512vnni");
  machine_code.renderer = "x86";
  EXPECT_EQ(tensor_cores_of(machine_code), Names{});
}

TEST(TensorCoreTable, ChoicesPackIntoReadableNumbers) {
  EXPECT_EQ(tc_number({-1, 0, 1}), 1);
  EXPECT_EQ(tc_number({0, 2, 1}), 121);
  for (int64_t select = -1; select < 5; ++select) {
    for (int64_t level = 0; level < 3; ++level) {
      const TcChoice c = tc_choice(tc_number({select, level, 2}));
      EXPECT_EQ(c.select, select);
      EXPECT_EQ(c.level, level);
      EXPECT_EQ(c.use, 2);
    }
  }
}

// ---- numbers: every record, by the layouts of the hardware ----

void expect_product(const TensorCore& core, const Shape& s, const ir::Opts& opts, Layout l = {}) {
  SCOPED_TRACE(std::string(core.name) + " " + ir::opts_text(opts));
  Graph g;
  KernelBuilder b(g);
  N plain = matmul(b, core, s, l);
  N fast = with_tc(g, plain, with_core(core), opts);
  ASSERT_GT(count(fast, Op::kWmma), 0);
  const Executed want = executed(g, plain, core, s);
  const Executed got = executed(g, fast, core, s);
  expect_equal(got.c, want.c, core.name);
}

TEST(TensorCoreProduct, OneTileOfEveryRow) {
  for (const TensorCore& c : tensor_core_table()) {
    expect_product(c, {std::max<int64_t>(c.m, 2), c.n, c.k}, {{OptOp::kTc, 0, tc(0)}});
  }
}

TEST(TensorCoreProduct, SeveralTilesAndStepsOfEveryRow) {
  for (const TensorCore& c : tensor_core_table()) {
    if (c.c_elements > 16) continue;  // a tile of AMX is as large as these
    expect_product(c, {2 * c.m, c.n, 2 * c.k}, {{OptOp::kTc, 0, tc(0)}});
    expect_product(c, {std::max<int64_t>(c.m, 2), 2 * c.n, c.k}, {{OptOp::kTc, 0, tc(0)}},
                   {true, false});
  }
}

TEST(TensorCoreProduct, OddSizesArePaddedOnlyAtLevelTwo) {
  for (const TensorCore& c : tensor_core_table()) {
    if (c.c_elements > 16) continue;
    const Shape odd{c.m + 5, c.n + 3, c.k + 1};
    expect_product(c, odd, {{OptOp::kTc, 0, tc(2)}});
    Graph g;
    KernelBuilder b(g);
    Scheduler s(g, matmul(b, c, odd), with_core(c));
    const Status refused = s.apply_opt({OptOp::kTc, 0, tc(1)});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(ir::fault_of(refused.error()), Fault::kTcPad) << refused.error().what;
  }
}

TEST(TensorCoreProduct, FactorsInTheOtherOrderAreFoundToo) {
  const TensorCore& mixed = *find_tensor_core("avx512_u8_i8");
  expect_product(mixed, {2, 16, 8}, {{OptOp::kTc, 0, tc(0)}}, {false, true});
  // Where types do not tell the factors apart, axis 1 is the other order: N and M change places.
  const TensorCore& same = *find_tensor_core("rdna3_f16_f32");
  expect_product(same, {16, 32, 16}, {{OptOp::kTc, 1, tc(0)}});
}

TEST(TensorCoreProduct, OptsAfterTheUnitKeepTheProduct) {
  const TensorCore& c = *find_tensor_core("rdna4_f16_f32");
  const ir::Opts opts = {{OptOp::kTc, 0, tc(0)}, {OptOp::kUpcast, 0, 2}, {OptOp::kUnroll, 0, 2}};
  expect_product(c, {32, 16, 32}, opts);
}

// The tile shapes alone: no unit, the same sums.
TEST(TensorCoreProduct, UseTwoTakesOnlyTheShapes) {
  const TensorCore& c = *find_tensor_core("rdna3_f16_f32");
  Graph g;
  KernelBuilder b(g);
  const Shape s{16, 32, 32};
  N plain = matmul(b, c, s);
  N shapes = with_tc(g, plain, with_core(c), {{OptOp::kTc, 0, tc(0, 2)}});
  EXPECT_EQ(count(shapes, Op::kWmma), 0);
  Scheduler after(g, shapes, with_core(c));
  EXPECT_EQ(after.axes_of({AxisType::kWarp}).size(), 1U);
  EXPECT_EQ(after.axes_of({AxisType::kUpcast}).size(), 3U);
  EXPECT_EQ(after.axes_of({AxisType::kUnroll}).size(), 4U);
  expect_equal(executed(g, shapes, c, s).c, executed(g, plain, c, s).c, "shapes");
}

// A wrong swizzle is what the tests above would see.
TEST(TensorCoreProduct, TheInterpreterIsNotFooledByAWrongOperand) {
  const TensorCore& c = *find_tensor_core("rdna3_f16_f32");
  Graph g;
  KernelBuilder b(g);
  const Shape s{16, 16, 16};
  N plain = matmul(b, c, s);
  N fast = with_tc(g, plain, with_core(c), {{OptOp::kTc, 0, tc(0)}});
  N wrong = map_graph(g, fast, [&](N n, const ir::NodeVec& src) -> N {
    if (n->op != Op::kWmma) return rebuilt(g, n, src);
    ir::WmmaArg arg = n->as<ir::WmmaArg>();
    std::swap(arg.a_axes[0], arg.a_axes[1]);
    return g.make(n->op, n->dtype, src, arg);
  });
  const Executed want = executed(g, plain, c, s);
  const Executed got = executed(g, wrong, c, s);
  EXPECT_NE(got.c.f, want.c.f);
}

// ---- the match ----

TEST(TensorCoreMatch, ProductsThatWouldWrapAreNotTheUnits) {
  const TensorCore& c = *find_tensor_core("avx512_u8_i8");
  const auto apply = [&](DType product) {
    Graph g;
    KernelBuilder b(g);
    N i = b.loop(4), j = b.loop(16), r = b.reduce_loop(4);
    N x = ir::cast(g, b.at(b.param(1, 16, c.a), b.add(b.times(i, 4), r)), product);
    N y = ir::cast(g, b.at(b.param(2, 64, c.b), b.add(b.times(r, 16), j)), product);
    N sum = b.reduce(Op::kAdd, ir::cast(g, b.mul(x, y), DType::kI32), {r});
    N ast = b.kernel(b.param(0, 64, DType::kI32), b.add(b.times(i, 16), j), sum, {i, j});
    Scheduler s(g, ast, with_core(c));
    const Status ok = s.apply_opt({OptOp::kTc, 0, tc(0)});
    return ok.ok() ? Fault::kNone : ir::fault_of(ok.error());
  };
  EXPECT_EQ(apply(DType::kI32), Fault::kNone);
  EXPECT_EQ(apply(DType::kI16), Fault::kNone);   // 255 * -128 fits
  EXPECT_EQ(apply(DType::kI8), Fault::kTcType);  // u8 does not fit i8
}

TEST(TensorCoreMatch, ACastThatLosesValuesIsPartOfTheFactor) {
  const TensorCore& c = *find_tensor_core("rdna3_f16_f32");
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(16), j = b.loop(16), r = b.reduce_loop(16);
  // i32 -> f16 rounds: the factor is the cast itself, of type f16.
  N x = ir::cast(g, b.at(b.param(1, 256, DType::kI32), b.add(b.times(i, 16), r)), DType::kF16);
  N y = b.at(b.param(2, 256, DType::kF16), b.add(b.times(r, 16), j));
  N product = b.mul(ir::cast(g, x, DType::kF32), ir::cast(g, y, DType::kF32));
  N ast =
      b.kernel(b.param(0, 256), b.add(b.times(i, 16), j), b.reduce(Op::kAdd, product, {r}), {i, j});
  N fast = with_tc(g, ast, with_core(c), {{OptOp::kTc, 0, tc(0)}});
  EXPECT_EQ(count(fast, Op::kWmma), 1);
  for (N n : ir::toposort(fast)) {
    if (n->op == Op::kWmma) {
      EXPECT_EQ(n->src(0)->op, Op::kCast);
    }
  }
}

TEST(TensorCoreMatch, ChoicesRunOverStepsThenRowsThenColumns) {
  // A[i0][i1][k0][k1] * B[k0][k1][j]: two M axes, two K axes.
  const TensorCore& c = *find_tensor_core("rdna3_f16_f32");
  Graph g;
  KernelBuilder b(g);
  N i0 = b.loop(16), i1 = b.loop(32), j = b.loop(48);
  N k0 = b.reduce_loop(64), k1 = b.reduce_loop(80);
  N row = b.add(b.times(i0, 32), i1), step = b.add(b.times(k0, 80), k1);
  N x = b.at(b.param(1, 512 * 5120, c.a), b.add(b.times(row, 5120), step));
  N y = b.at(b.param(2, 5120 * 48, c.b), b.add(b.times(step, 48), j));
  N product = b.mul(ir::cast(g, x, DType::kF32), ir::cast(g, y, DType::kF32));
  N ast = b.kernel(b.param(0, 512 * 48), b.add(b.times(row, 48), j),
                   b.reduce(Op::kAdd, product, {k0, k1}), {i0, i1, j});
  const auto left = [&](int64_t axis) {
    Scheduler s(g, ast, with_core(c));
    EXPECT_TRUE(s.apply_opt({OptOp::kTc, axis, tc(1)}).ok()) << axis;
    std::vector<int64_t> sizes;
    for (size_t a : s.axes_of({AxisType::kWeak, AxisType::kReduce})) sizes.push_back(s.size(a));
    return sizes;
  };
  using Sizes = std::vector<int64_t>;            // what is left of i0 i1 j k0 k1
  EXPECT_EQ(left(0), (Sizes{16, 2, 3, 64, 5}));  // M = i1, K = k1: the higher id first
  EXPECT_EQ(left(1), (Sizes{16, 2, 3, 4, 80}));  // K = k0
  EXPECT_EQ(left(2), (Sizes{32, 3, 64, 5}));     // M = i0, used up
  EXPECT_EQ(left(3), (Sizes{32, 3, 4, 80}));
}

TEST(TensorCoreMatch, SelectNamesOneRow) {
  CodegenOptions o = with_core(*find_tensor_core("rdna3_f16_f16"));
  o.caps.tensor_cores = {"rdna3_f16_f16", "rdna3_f16_f32"};
  const TensorCore& wide = *find_tensor_core("rdna3_f16_f32");
  Graph g;
  KernelBuilder b(g);
  N ast = matmul(b, wide, {16, 16, 16});
  Scheduler first(g, ast, o);
  const Status refused = first.apply_opt({OptOp::kTc, 0, tc_number({0, 0, 1})});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(ir::fault_of(refused.error()), Fault::kTcType);
  EXPECT_TRUE(first.apply_opt({OptOp::kTc, 0, tc_number({1, 0, 1})}).ok());
  Scheduler any(g, ast, o);
  EXPECT_TRUE(any.apply_opt({OptOp::kTc, 0, tc(0)}).ok());
}

// ---- expander, remove_reduces, the program ----

N passes(Graph& g, N ast, const CodegenOptions& o, const char* last) {
  auto r = run_kernel_passes(g, ast, o, true, last);
  EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().what);
  return r.ok() ? *r : ast;
}

N with_recipe(Graph& g, N ast, const ir::Opts& opts) {
  ir::KernelInfo info;
  info.opts_to_apply = opts;
  return g.with_arg(ast, info);
}

TEST(ExpanderWmma, FactorsAreVectorsAndStepsRepeatPerTile) {
  for (const TensorCore& c : tensor_core_table()) {
    if (c.c_elements > 16) continue;
    SCOPED_TRACE(c.name);
    Graph g;
    KernelBuilder b(g);
    const Shape s{2 * c.m, 3 * c.n, c.k};
    N ast = matmul(b, c, s);
    N wide = passes(g, with_recipe(g, ast, {{OptOp::kTc, 0, tc(0)}, {OptOp::kUpcast, 0, 2}}),
                    with_core(c), "expander");
    ASSERT_TRUE(g.status().ok()) << g.status().error().what;
    int64_t steps = 0;
    for (N n : ir::toposort(wide)) {
      if (n->op != Op::kWmma) continue;
      steps += 1;
      ASSERT_EQ(n->nsrc, 3U);
      EXPECT_EQ(n->src(0)->nsrc, static_cast<size_t>(c.a_elements));
      EXPECT_EQ(n->src(1)->nsrc, static_cast<size_t>(c.b_elements));
      EXPECT_EQ(n->src(2)->nsrc, static_cast<size_t>(c.c_elements));
    }
    EXPECT_EQ(steps, 2);
    expect_equal(executed(g, wide, c, s).c, executed(g, ast, c, s).c, c.name);
  }
}

TEST(RemoveReducesWmma, AddsAroundTheUnitBecomeItsAccumulator) {
  const TensorCore& c = *find_tensor_core("avx512_u8_i8");
  Graph g;
  KernelBuilder b(g);
  N ast = with_recipe(g, matmul(b, c, {4, 32, 64}),
                      {{OptOp::kTc, 0, tc(0)}, {OptOp::kUpcast, 0, 4}, {OptOp::kUnroll, 0, 2}});
  N out = passes(g, ast, with_core(c), "remove_reduces");
  int64_t from_memory = 0;
  int64_t from_steps = 0;
  for (N n : ir::toposort(out)) {
    if (n->op == Op::kAdd) {
      EXPECT_NE(n->dtype, c.c) << "an add the unit could do";
    }
    if (n->op != Op::kWmma) continue;
    ASSERT_EQ(n->src(2)->op, Op::kStack);
    for (N s : n->src(2)->src()) {
      ASSERT_EQ(s->op, Op::kIndex);
      (s->src(0)->op == Op::kWmma ? from_steps : from_memory) += 1;
    }
  }
  EXPECT_EQ(from_memory, 4 * 16);  // the first of two steps starts from the accumulators
  EXPECT_EQ(from_steps, 4 * 16);   // the second from the first
}

TEST(RemoveReducesWmma, WithoutALoopStepsChainFromZero) {
  const TensorCore& c = *find_tensor_core("avx512_bf16");
  Graph g;
  KernelBuilder b(g);
  N ast =
      with_recipe(g, matmul(b, c, {2, 16, 8}), {{OptOp::kTc, 0, tc(0)}, {OptOp::kUnroll, 0, 0}});
  N out = passes(g, ast, with_core(c), "remove_reduces");
  EXPECT_EQ(count(out, Op::kWmma), 4);
  EXPECT_EQ(count(out, Op::kBuffer), 0);
  for (N n : ir::toposort(out)) {
    if (n->op == Op::kAdd) {
      EXPECT_NE(n->dtype, c.c);
    }
  }
}

TEST(ProgramWmma, AccumulatorsAreWholeVectorsAndStepsCountTheirWork) {
  const TensorCore& c = *find_tensor_core("avx512_u8_i8");
  Graph g;
  KernelBuilder b(g);
  CodegenOptions o = with_core(c);
  o.render = [](Graph&, std::span<const Node* const>, const std::string& n) -> Result<std::string> {
    return n;
  };
  N ast =
      with_recipe(g, matmul(b, c, {4, 32, 64}), {{OptOp::kTc, 0, tc(0)}, {OptOp::kUpcast, 0, 4}});
  auto sink = full_rewrite_to_sink(g, ast, o, true);
  ASSERT_TRUE(sink.ok()) << sink.error().what;
  for (N n : ir::toposort(*sink)) {
    if (n->op == Op::kWmma) {
      EXPECT_EQ(n->src(2)->op, Op::kLoad) << ir::expr(n->src(2));
    }
  }
  Graph h;
  KernelBuilder e(h);
  N again =
      with_recipe(h, matmul(e, c, {4, 32, 64}), {{OptOp::kTc, 0, tc(0)}, {OptOp::kUpcast, 0, 4}});
  auto program = to_program(h, again, o);
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(program->info.flops, 2 * 4 * 32 * 64);
}

}  // namespace
}  // namespace modeld::codegen
