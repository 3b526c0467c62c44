// Scheduler::apply_opt: the legality table of pipeline hand-book 6.2, one row per condition, what
// an opt does to the axes, and that a refused one does nothing.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/scheduler.h"
#include "runtime/codegen/tensor_cores.h"
#include "runtime/ir/symbolic.h"

#include "selftest/testing/kernel_builder.h"

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
using N = const Node*;

CodegenOptions cpu() {
  return cpu_options(*hal::parse_target("cpu:x86-64-v3"));
}

// A renderer with work groups, threads as well, and one matrix unit.
CodegenOptions grid() {
  CodegenOptions o = cpu();
  o.caps.name = "grid";
  o.caps.has_locals = true;
  o.caps.shared_max = 4096;
  o.caps.global_max[0] = 64;
  o.caps.tensor_cores = {"rdna3_f16_f32"};
  return o;
}

CodegenOptions without_threads() {
  CodegenOptions o = grid();
  o.caps.has_threads = false;
  return o;
}

// C[i][j] = sum over k of A[i][k] * B[k][j].
N matmul(KernelBuilder& b, int64_t m, int64_t n, int64_t k, DType in = DType::kF32) {
  N i = b.loop(m), j = b.loop(n), r = b.reduce_loop(k);
  N x = b.at(b.param(1, m * k, in), b.add(b.times(i, k), r));
  N y = b.at(b.param(2, k * n, in), b.add(b.times(r, n), j));
  N product = b.mul(ir::cast(b.g, x, DType::kF32), ir::cast(b.g, y, DType::kF32));
  return b.kernel(b.param(0, m * n), b.add(b.times(i, n), j), b.reduce(Op::kAdd, product, {r}),
                  {i, j});
}

N small_matmul(KernelBuilder& b) {
  return matmul(b, 32, 64, 48);
}
N half_matmul(KernelBuilder& b) {
  return matmul(b, 32, 64, 48, DType::kF16);
}
N odd_matmul(KernelBuilder& b) {
  return matmul(b, 30, 64, 48, DType::kF16);
}
N row_sum(KernelBuilder& b) {
  N i = b.loop(8), r = b.reduce_loop(4096);
  N x = b.at(b.param(1, 8 * 4096), b.add(b.times(i, 4096), r));
  return b.kernel(b.param(0, 8), i, b.reduce(Op::kAdd, x, {r}), {i});
}
N row_max(KernelBuilder& b) {
  N i = b.loop(8), r = b.reduce_loop(64);
  N x = b.at(b.param(1, 8 * 64, DType::kF16), b.add(b.times(i, 64), r));
  return b.kernel(b.param(0, 8, DType::kF16), i, b.reduce(Op::kMax, x, {r}), {i});
}
// The inner sum is what the outer one adds up.
N nested_sum(KernelBuilder& b) {
  N i = b.loop(8), r = b.reduce_loop(16), q = b.reduce_loop(32);
  N x = b.at(b.param(1, 8 * 16 * 32), b.add(b.add(b.times(i, 512), b.times(r, 32)), q));
  N inner = b.reduce(Op::kAdd, x, {q});
  return b.kernel(b.param(0, 8), i, b.reduce(Op::kAdd, b.mul(inner, inner), {r}), {i});
}
N symbolic_rows(KernelBuilder& b) {
  N n = ir::variable(b.g, "n", 1, 64, DType::kWeakInt);
  N i = b.g.make(Op::kRange, DType::kWeakInt, {n}, ir::RangeArg{0, AxisType::kWeak});
  return b.kernel(b.param(0, 64), i, b.at(b.param(1, 64), i), {i});
}
// Two stores; only the first is inside the loop over i.
N two_stores(KernelBuilder& b) {
  N i = b.loop(8), j = b.loop(8);
  return b.kernel({b.end(b.store(b.param(0, 8), i, b.f(1)), {i}),
                   b.end(b.store(b.param(1, 8), j, b.f(2)), {j})});
}
// Sum of A[i][k] * B[k][j] in which j is a loop of an outer sum.
N summed_product(KernelBuilder& b) {
  N i = b.loop(32), j = b.reduce_loop(16), r = b.reduce_loop(16);
  N x = b.at(b.param(1, 32 * 16, DType::kF16), b.add(b.times(i, 16), r));
  N y = b.at(b.param(2, 16 * 16, DType::kF16), b.add(b.times(r, 16), j));
  N product = b.mul(ir::cast(b.g, x, DType::kF32), ir::cast(b.g, y, DType::kF32));
  N sum = b.reduce(Op::kMax, b.reduce(Op::kAdd, product, {r}), {j});
  return b.kernel(b.param(0, 32), i, sum, {i});
}

int64_t tc(int64_t select, int64_t level, int64_t use) {
  return tc_number({select, level, use});
}

struct Row {
  const char* what;
  N (*kernel)(KernelBuilder&);
  CodegenOptions (*renderer)();
  ir::Opts before;  // legal, applied first
  ir::Opt legal;
  ir::Opt illegal;
  Fault fault;
  const char* words;  // part of the message
};

// A condition's legal opt differs from its illegal one in the condition only, where one exists.
const std::vector<Row>& table() {
  // clang-format off
  static const std::vector<Row> rows = {
      {"axis exists", small_matmul, cpu, {}, {OptOp::kUpcast, 1, 4}, {OptOp::kUpcast, 3, 4},
       Fault::kOptAxis, "axis 3 of 3 axes"},
      {"axis is not negative", small_matmul, cpu, {}, {OptOp::kUpcast, 0, 4}, {OptOp::kUpcast, -1,
       4}, Fault::kOptAxis, "axis -1 of 3"},
      {"UNROLL counts reduce axes", small_matmul, cpu, {}, {OptOp::kUnroll, 0, 4}, {OptOp::kUnroll,
       1, 4}, Fault::kOptAxis, "axis 1 of 1 reduce axes"},
      {"GROUP counts REDUCE axes", row_sum, grid, {}, {OptOp::kGroup, 0, 4}, {OptOp::kGroup, 1, 4},
       Fault::kOptAxis, "axis 1 of 1 REDUCE axes"},
      {"amount", small_matmul, cpu, {}, {OptOp::kUpcast, 0, 1}, {OptOp::kUpcast, 0, -4},
       Fault::kOptAmount, "amount -4 is below 1"},
      {"PADTO has no whole axis", small_matmul, cpu, {}, {OptOp::kPadTo, 0, 24}, {OptOp::kPadTo, 0,
       0}, Fault::kOptAmount, "amount 0"},
      {"divides", small_matmul, cpu, {}, {OptOp::kUpcast, 0, 8}, {OptOp::kUpcast, 0, 5},
       Fault::kOptDivide, "axis size 32 is not divisible by 5"},
      {"UPCAST of an output axis", small_matmul, cpu, {}, {OptOp::kUpcast, 1, 4}, {OptOp::kUpcast,
       2, 4}, Fault::kOptUpcastAxis, "axis is reduce"},
      {"UPCAST of a LOCAL axis", small_matmul, grid, {{OptOp::kLocal, 0, 8}}, {OptOp::kUpcast, 2,
       4}, {OptOp::kUpcast, 3, 4}, Fault::kOptUpcastAxis, "axis is reduce"},
      {"UPCAST up to 16", small_matmul, cpu, {}, {OptOp::kUpcast, 0, 16}, {OptOp::kUpcast, 0, 32},
       Fault::kOptUpcastSize, "32 lanes, limit 16"},
      {"UNROLL up to 32", row_sum, cpu, {}, {OptOp::kUnroll, 0, 32}, {OptOp::kUnroll, 0, 64},
       Fault::kOptUnrollSize, "64 steps, limit 32"},
      {"LOCAL of an output loop", small_matmul, grid, {}, {OptOp::kLocal, 0, 4}, {OptOp::kLocal, 2,
       4}, Fault::kOptLocalAxis, "axis is reduce"},
      {"GROUP of an outermost reduce", nested_sum, grid, {}, {OptOp::kGroup, 0, 4}, {OptOp::kGroup,
       1, 4}, Fault::kOptGroupNested, "nested inside another reduce"},
      {"GROUPTOP of an outermost reduce", nested_sum, grid, {}, {OptOp::kGroupTop, 0, 4},
       {OptOp::kGroupTop, 1, 4}, Fault::kOptGroupNested, "nested inside another reduce"},
      {"GROUP not after TC", half_matmul, grid, {{OptOp::kTc, 0, 1}}, {OptOp::kUnroll, 0, 3},
       {OptOp::kGroup, 0, 3}, Fault::kOptGroupTc, "not after TC"},
      {"shared memory of a group", row_sum, grid, {}, {OptOp::kGroup, 0, 1024}, {OptOp::kGroup, 0,
       2048}, Fault::kOptShared, "needs 8192 bytes of shared memory, limit 4096"},
      {"shared memory of what follows", row_sum, grid, {{OptOp::kGroup, 0, 512}}, {OptOp::kLocal,
       0, 2}, {OptOp::kLocal, 0, 4}, Fault::kOptShared, "needs 8192 bytes"},
      {"one THREAD axis", small_matmul, cpu, {{OptOp::kThread, 0, 4}}, {OptOp::kUpcast, 1, 2},
       {OptOp::kThread, 1, 2}, Fault::kOptThreadTwice, "a THREAD axis exists"},
      {"THREAD of an output loop", small_matmul, cpu, {}, {OptOp::kThread, 0, 2}, {OptOp::kThread,
       2, 2}, Fault::kOptThreadAxis, "axis is reduce"},
      {"THREAD of every store", two_stores, cpu, {}, {OptOp::kUpcast, 0, 2}, {OptOp::kThread, 0,
       2}, Fault::kOptThreadStores, "not part of every store"},
      {"LOCAL after NOLOCALS", small_matmul, grid, {{OptOp::kNoLocals, 0, 0}}, {OptOp::kUpcast, 0,
       4}, {OptOp::kLocal, 0, 4}, Fault::kOptLocalsOff, "not after NOLOCALS"},
      {"GROUPTOP after NOLOCALS", row_sum, grid, {{OptOp::kNoLocals, 0, 0}}, {OptOp::kUnroll, 0,
       4}, {OptOp::kGroupTop, 0, 4}, Fault::kOptLocalsOff, "not after NOLOCALS"},
      {"NOLOCALS before LOCAL", small_matmul, grid, {{OptOp::kLocal, 0, 4}}, {OptOp::kLocal, 1, 4},
       {OptOp::kNoLocals, 0, 0}, Fault::kOptHasLocals, "axis exists"},
      {"NOLOCALS before GROUP", row_sum, grid, {{OptOp::kGroup, 0, 4}}, {OptOp::kLocal, 0, 4},
       {OptOp::kNoLocals, 0, 0}, Fault::kOptHasLocals, "axis exists"},
      {"NOLOCALS before WARP", half_matmul, grid, {{OptOp::kTc, 0, 1}}, {OptOp::kLocal, 1, 2},
       {OptOp::kNoLocals, 0, 0}, Fault::kOptHasLocals, "axis exists"},
      {"PADTO of a loop", small_matmul, cpu, {{OptOp::kUpcast, 0, 4}}, {OptOp::kPadTo, 0, 3},
       {OptOp::kPadTo, 2, 3}, Fault::kOptPadAxis, "axis is upcast"},
      {"PADTO of a THREAD axis", small_matmul, cpu, {{OptOp::kThread, 0, 4}}, {OptOp::kPadTo, 0,
       3}, {OptOp::kPadTo, 2, 3}, Fault::kOptPadAxis, "axis is thread"},
      {"PADTO of an UNROLL axis", small_matmul, cpu, {{OptOp::kUnroll, 0, 4}}, {OptOp::kPadTo, 0,
       3}, {OptOp::kPadTo, 3, 3}, Fault::kOptPadAxis, "axis is unroll"},
      {"PADTO of lanes of a unit", half_matmul, grid, {{OptOp::kTc, 0, 1}}, {OptOp::kPadTo, 0, 3},
       {OptOp::kPadTo, 2, 33}, Fault::kOptPadAxis, "axis is warp"},
      {"PADTO below four times", small_matmul, cpu, {}, {OptOp::kPadTo, 0, 127}, {OptOp::kPadTo, 0,
       128}, Fault::kOptPadGrowth, "makes 128 of 32"},
      {"PADTO of a huge amount", small_matmul, cpu, {}, {OptOp::kPadTo, 0, 33}, {OptOp::kPadTo, 0,
       INT64_MAX}, Fault::kOptPadGrowth, "four times the axis"},
      {"SWAP's second axis", small_matmul, grid, {}, {OptOp::kSwap, 0, 1}, {OptOp::kSwap, 0, 3},
       Fault::kOptSwapAxis, "second axis 3 of 3"},
      {"SWAP of GLOBAL axes", small_matmul, grid, {}, {OptOp::kSwap, 0, 1}, {OptOp::kSwap, 0, 2},
       Fault::kOptSwapType, "axes are global and reduce"},
      {"TC first", half_matmul, grid, {{OptOp::kUpcast, 0, 2}}, {OptOp::kUpcast, 1, 2},
       {OptOp::kTc, 0, 1}, Fault::kTcFirst, "must be the first opt"},
      {"TC select", half_matmul, grid, {}, {OptOp::kTc, 0, tc(0, 0, 1)}, {OptOp::kTc, 0, tc(1, 0,
       1)}, Fault::kTcArgument, "select 1 of 1"},
      {"TC level", half_matmul, grid, {}, {OptOp::kTc, 0, tc(-1, 2, 1)}, {OptOp::kTc, 0, tc(-1, 3,
       1)}, Fault::kTcArgument, "level 3"},
      {"TC use", half_matmul, grid, {}, {OptOp::kTc, 0, tc(-1, 0, 2)}, {OptOp::kTc, 0, tc(-1, 0,
       3)}, Fault::kTcArgument, "use 3"},
      {"TC use 0", half_matmul, grid, {}, {OptOp::kTc, 0, tc(-1, 0, 1)}, {OptOp::kTc, 0, 0},
       Fault::kTcArgument, "use 0"},
      {"TC of a sum", row_max, grid, {}, {OptOp::kUpcast, 0, 2}, {OptOp::kTc, 0, 1},
       Fault::kTcReduce, "no sum of products"},
      {"TC of products", row_sum, grid, {}, {OptOp::kUpcast, 0, 2}, {OptOp::kTc, 0, 1},
       Fault::kTcReduce, "no sum of products"},
      {"TC of one reduce axis", summed_product, grid, {}, {OptOp::kUpcast, 0, 2}, {OptOp::kTc, 0,
       1}, Fault::kTcReduce, "needs level 1"},
      {"TC types", small_matmul, grid, {}, {OptOp::kUpcast, 0, 2}, {OptOp::kTc, 0, 1},
       Fault::kTcType, "f32 by f32"},
      {"TC axes", half_matmul, grid, {}, {OptOp::kTc, 1, 1}, {OptOp::kTc, 2, 1}, Fault::kTcAxes,
       "no such choice of axes"},
      {"TC N and M are output axes", summed_product, grid, {}, {OptOp::kUpcast, 0, 2}, {OptOp::kTc,
       0, tc(-1, 1, 1)}, Fault::kTcReduceAxis, "axis of a reduce"},
      {"TC divides", odd_matmul, grid, {}, {OptOp::kTc, 0, tc(-1, 2, 1)}, {OptOp::kTc, 0, tc(-1, 1,
       1)}, Fault::kTcPad, "axis size 30 is no multiple of 16"},
  };
  // clang-format on
  return rows;
}

// Everything a scheduler holds: equal nodes are one pointer.
N state(const Scheduler& s) {
  return s.optimised_ast("state");
}

Scheduler started(Graph& g, N ast, const CodegenOptions& o, const ir::Opts& before) {
  Scheduler s(g, ast, o);
  s.convert_weak_to_global();
  for (const ir::Opt& opt : before) {
    const Status ok = s.apply_opt(opt);
    EXPECT_TRUE(ok.ok()) << ir::opt_text(opt) << ": " << (ok.ok() ? "" : ok.error().what);
  }
  return s;
}

void expect_refused(Scheduler& s, const ir::Opt& opt, Fault fault, const char* words) {
  N before = state(s);
  const Status refused = s.apply_opt(opt);
  ASSERT_FALSE(refused.ok()) << ir::opt_text(opt);
  EXPECT_EQ(ir::fault_of(refused.error()), fault) << refused.error().what;
  EXPECT_NE(refused.error().what.find(words), std::string::npos) << refused.error().what;
  EXPECT_NE(refused.error().what.find(ir::opt_text(opt)), std::string::npos)
      << refused.error().what;
  EXPECT_EQ(state(s), before) << ir::opt_text(opt);
}

TEST(ApplyOptLegality, EveryConditionHasALegalAndAnIllegalOpt) {
  for (const Row& row : table()) {
    SCOPED_TRACE(row.what);
    Graph g;
    KernelBuilder b(g);
    const CodegenOptions o = row.renderer();
    N ast = row.kernel(b);
    Scheduler good = started(g, ast, o, row.before);
    N before = state(good);
    const Status ok = good.apply_opt(row.legal);
    EXPECT_TRUE(ok.ok()) << (ok.ok() ? "" : ok.error().what);
    EXPECT_NE(state(good), before);
    EXPECT_EQ(good.applied_opts().back(), row.legal);
    Scheduler bad = started(g, ast, o, row.before);
    expect_refused(bad, row.illegal, row.fault, row.words);
  }
}

TEST(ApplyOptLegality, EveryFaultOfAnOptIsInTheTable) {
  std::set<Fault> broken;
  for (const Row& row : table()) broken.insert(row.fault);
  // Those that need another renderer or kernel than their legal opt: the tests below.
  for (Fault f : {Fault::kOptSymbolic, Fault::kOptNoLocals, Fault::kOptNoThreads,
                  Fault::kOptThreadCount, Fault::kTcMissing}) {
    EXPECT_TRUE(broken.insert(f).second) << ir::fault_name(f);
  }
  for (auto f = static_cast<int32_t>(Fault::kOptAxis); f <= static_cast<int32_t>(Fault::kTcPad);
       ++f) {
    EXPECT_TRUE(broken.contains(static_cast<Fault>(f))) << ir::fault_name(static_cast<Fault>(f));
  }
}

TEST(ApplyOptLegality, ASymbolicAxisIsLeftAlone) {
  Graph g;
  KernelBuilder b(g);
  Scheduler s(g, symbolic_rows(b), cpu());
  for (OptOp op : {OptOp::kUpcast, OptOp::kThread, OptOp::kPadTo}) {
    expect_refused(s, {op, 0, 2}, Fault::kOptSymbolic, "symbolic size");
  }
}

TEST(ApplyOptLegality, WorkGroupsNeedARendererThatHasThem) {
  Graph g;
  KernelBuilder b(g);
  Scheduler s(g, row_sum(b), cpu());
  for (OptOp op : {OptOp::kLocal, OptOp::kGroup, OptOp::kGroupTop}) {
    expect_refused(s, {op, 0, 4}, Fault::kOptNoLocals, "renderer c has no work groups");
  }
}

TEST(ApplyOptLegality, ThreadsNeedARendererThatHasThem) {
  Graph g;
  KernelBuilder b(g);
  Scheduler none(g, small_matmul(b), without_threads());
  expect_refused(none, {OptOp::kThread, 0, 4}, Fault::kOptNoThreads, "has no threads");
  CodegenOptions few = cpu();
  few.caps.global_max[0] = 8;
  Scheduler s(g, small_matmul(b), few);
  expect_refused(s, {OptOp::kThread, 0, 16}, Fault::kOptThreadCount, "16 threads, limit 8");
  EXPECT_TRUE(s.apply_opt({OptOp::kThread, 0, 8}).ok());
}

TEST(ApplyOptLegality, TensorCoresNeedARendererAndArithmeticThatMayUseThem) {
  Graph g;
  KernelBuilder b(g);
  Scheduler none(g, half_matmul(b), cpu());
  expect_refused(none, {OptOp::kTc, 0, 1}, Fault::kTcMissing, "renderer c has no tensor cores");
  CodegenOptions exact = grid();
  exact.double_acc = true;
  Scheduler reference(g, half_matmul(b), exact);
  expect_refused(reference, {OptOp::kTc, 0, 1}, Fault::kTcMissing, "exact arithmetic");
  exact = grid();
  exact.no_contract = true;
  Scheduler warp(g, half_matmul(b), exact);
  expect_refused(warp, {OptOp::kTc, 0, 1}, Fault::kTcMissing, "exact arithmetic");
}

// ---- what legal opts do ----

N index_of_store(const Scheduler& s) {
  for (N n : ir::toposort(s.ast())) {
    if (n->op == Op::kStore) return split_gate(n->src(0)->src(1)).index;
  }
  return nullptr;
}

// Every element number the store takes, loop by loop in axis order.
std::vector<int64_t> stored_order(Graph& g, const Scheduler& s) {
  std::vector<int64_t> out;
  std::vector<size_t> axes;
  N index = index_of_store(s);
  for (size_t a = 0; a < s.axes().size(); ++a) {
    if (ir::depends_on(g, index, s.axes()[a])) axes.push_back(a);
  }
  int64_t total = 1;
  for (size_t a : axes) total *= s.size(a);
  for (int64_t at = 0; at < total; ++at) {
    ir::NodeMap map;
    int64_t rest = at;
    for (size_t i = axes.size(); i-- > 0;) {
      map[s.axes()[axes[i]]] = ir::const_int(g, rest % s.size(axes[i]));
      rest /= s.size(axes[i]);
    }
    out.push_back(*ir::int_value(ir::simplify(g, ir::substitute(g, index, map))));
  }
  return out;
}

N copy_of(KernelBuilder& b, int64_t n) {
  N i = b.loop(n);
  return b.kernel(b.param(0, n), i, b.at(b.param(1, n), i), {i});
}

TEST(ApplyOptShift, InnerPartCountsOneByOneOuterPartJumps) {
  Graph g;
  KernelBuilder b(g);
  Scheduler inner(g, copy_of(b, 12), cpu());
  ASSERT_TRUE(inner.apply_opt({OptOp::kUpcast, 0, 4}).ok());
  EXPECT_EQ(inner.size(0), 3);
  EXPECT_EQ(inner.type(1), AxisType::kUpcast);
  EXPECT_EQ(stored_order(g, inner), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  // THREAD takes the outer part: thread t has 3t, 3t+1, 3t+2. Axes are sorted WEAK before THREAD.
  Scheduler outer(g, copy_of(b, 12), cpu());
  ASSERT_TRUE(outer.apply_opt({OptOp::kThread, 0, 4}).ok());
  EXPECT_EQ(outer.type(1), AxisType::kThread);
  EXPECT_EQ(stored_order(g, outer), (std::vector<int64_t>{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
}

TEST(ApplyOptShift, AWholeAxisLeavesNoLoopOfOneStep) {
  Graph g;
  KernelBuilder b(g);
  Scheduler s(g, copy_of(b, 8), cpu());
  ASSERT_TRUE(s.apply_opt({OptOp::kUpcast, 0, 0}).ok());
  ASSERT_EQ(s.axes().size(), 1U);
  EXPECT_EQ(s.type(0), AxisType::kUpcast);
  EXPECT_EQ(s.size(0), 8);
  EXPECT_EQ(s.applied_opts(), (ir::Opts{{OptOp::kUpcast, 0, 0}}));
}

TEST(ApplyOptShift, EverySplitOfEverySizeStoresEachElementOnce) {
  for (int64_t size = 1; size <= 24; ++size) {
    for (int64_t n = 1; n <= 16; ++n) {
      for (OptOp op : {OptOp::kUpcast, OptOp::kThread, OptOp::kLocal}) {
        Graph g;
        KernelBuilder b(g);
        Scheduler s(g, copy_of(b, size), grid());
        if (size % n != 0) {
          EXPECT_FALSE(s.apply_opt({op, 0, n}).ok());
          continue;
        }
        ASSERT_TRUE(s.apply_opt({op, 0, n}).ok()) << size << " " << n;
        std::vector<int64_t> order = stored_order(g, s);
        std::sort(order.begin(), order.end());
        ASSERT_EQ(order.size(), static_cast<size_t>(size));
        for (int64_t i = 0; i < size; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
      }
    }
  }
}

TEST(ApplyOptAxes, AreSortedByPositionThenNumber) {
  Graph g;
  KernelBuilder b(g);
  Scheduler s = started(g, small_matmul(b), grid(),
                        {{OptOp::kUpcast, 0, 4}, {OptOp::kUnroll, 0, 4}, {OptOp::kLocal, 1, 8}});
  std::vector<AxisType> types;
  std::vector<int64_t> sizes;
  for (size_t a = 0; a < s.axes().size(); ++a) {
    types.push_back(s.type(a));
    sizes.push_back(s.size(a));
  }
  EXPECT_EQ(types,
            (std::vector<AxisType>{AxisType::kGlobal, AxisType::kGlobal, AxisType::kLocal,
                                   AxisType::kUpcast, AxisType::kReduce, AxisType::kUnroll}));
  EXPECT_EQ(sizes, (std::vector<int64_t>{8, 8, 8, 4, 12, 4}));
}

TEST(ApplyOptAxes, UnrollSkipsFinishedReduceLoops) {
  Graph g;
  KernelBuilder b(g);
  Scheduler s(g, nested_sum(b), cpu());
  ASSERT_TRUE(s.apply_opt({OptOp::kUnroll, 0, 0}).ok());  // the loop of 16 is gone
  EXPECT_EQ(s.unrollable().size(), 1U);
  ASSERT_TRUE(s.apply_opt({OptOp::kUnroll, 0, 4}).ok());  // axis 0 is the loop of 32 now
  EXPECT_EQ(s.size(s.unrollable()[0]), 8);
}

TEST(ApplyOptSwap, ExchangesTheLaunchOrderAndNothingElse) {
  Graph g;
  KernelBuilder b(g);
  Scheduler s = started(g, small_matmul(b), grid(), {});
  EXPECT_EQ(s.size(0), 32);
  ASSERT_TRUE(s.apply_opt({OptOp::kSwap, 0, 1}).ok());
  EXPECT_EQ(s.size(0), 64);
  EXPECT_EQ(s.size(1), 32);
  ASSERT_TRUE(s.apply_opt({OptOp::kSwap, 0, 1}).ok());
  EXPECT_EQ(s.size(0), 32);
}

// Digest before == after for whatever is refused, over random recipes.
TEST(ApplyOptRandom, ARefusedOptLeavesTheSchedulerUnchanged) {
  constexpr uint32_t kSeed = 20260801;
  std::mt19937 rng(kSeed);
  SCOPED_TRACE(kSeed);
  N(*kernels[])
  (KernelBuilder&) = {small_matmul, half_matmul,    row_sum,   nested_sum,
                      two_stores,   summed_product, odd_matmul};
  CodegenOptions (*renderers[])() = {cpu, grid, without_threads};
  int64_t refused = 0;
  int64_t applied = 0;
  for (int round = 0; round < 300; ++round) {
    Graph g;
    KernelBuilder b(g);
    const CodegenOptions o = renderers[rng() % 3]();
    Scheduler s = started(g, kernels[rng() % 7](b), o, {});
    for (int step = 0; step < 8; ++step) {
      const auto op = static_cast<OptOp>(rng() % 10);
      const int64_t amounts[] = {0, 1, 2, 3, 4, 5, 8, 16, 32, 64, 101, 121, -1, 1000000};
      const ir::Opt opt{op, static_cast<int64_t>(rng() % 6) - 1, amounts[rng() % 14]};
      N before = state(s);
      const Status ok = s.apply_opt(opt);
      ASSERT_TRUE(g.status().ok()) << ir::opt_text(opt);
      if (ok.ok()) {
        applied += 1;
        EXPECT_EQ(s.applied_opts().back(), opt);
        continue;
      }
      refused += 1;
      EXPECT_NE(ir::fault_of(ok.error()), Fault::kNone) << ok.error().what;
      EXPECT_EQ(state(s), before) << ir::opt_text(opt);
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(applied, 300);
}

// applied_opts is the whole recipe: on the same AST it gives the same node again, also in a Graph
// that holds other things.
TEST(ApplyOptRandom, ReplayOfTheRecipeGivesTheSameProgram) {
  constexpr uint32_t kSeed = 20260802;
  std::mt19937 rng(kSeed);
  SCOPED_TRACE(kSeed);
  N (*kernels[])(KernelBuilder&) = {small_matmul, half_matmul, row_sum, odd_matmul};
  int64_t longest = 0;
  for (int round = 0; round < 200; ++round) {
    Graph g;
    KernelBuilder b(g);
    const CodegenOptions o = round % 2 != 0 ? grid() : cpu();
    N ast = kernels[rng() % 4](b);
    Scheduler first = started(g, ast, o, {});
    if (rng() % 3 == 0) (void)first.apply_opt({OptOp::kTc, 0, tc(-1, 2, 1)}).ok();
    for (int step = 0; step < 6; ++step) {
      const auto op = static_cast<OptOp>(rng() % 10);
      const int64_t amounts[] = {0, 1, 2, 3, 4, 8, 16};
      (void)first.apply_opt({op, static_cast<int64_t>(rng() % 5), amounts[rng() % 7]}).ok();
    }
    longest = std::max(longest, static_cast<int64_t>(first.applied_opts().size()));
    Scheduler again = started(g, ast, o, first.applied_opts());
    EXPECT_EQ(state(again), state(first)) << ir::opts_text(first.applied_opts());
    Graph other;
    for (int k = 0; k < 50; ++k) (void)other.fresh();
    Scheduler elsewhere = started(other, other.import(ast), o, first.applied_opts());
    EXPECT_EQ(state(elsewhere)->key, state(first)->key) << ir::opts_text(first.applied_opts());
  }
  EXPECT_GE(longest, 4);
}

}  // namespace
}  // namespace modeld::codegen
