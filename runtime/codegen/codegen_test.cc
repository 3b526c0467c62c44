// Passes, opts, order and keys on graphs; running code is kernel_run_test's.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "hal/base/fs.h"

#include "runtime/codegen/cfg_context.h"
#include "runtime/codegen/decompositions.h"
#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/linearize.h"
#include "runtime/codegen/lower.h"
#include "runtime/codegen/passes.h"
#include "runtime/codegen/scheduler.h"
#include "runtime/codegen/to_program.h"
#include "runtime/ir/print.h"
#include "runtime/ir/symbolic.h"

#include "selftest/testing/kernel_builder.h"

namespace modeld::codegen {
namespace {

using ir::AxisType;
using ir::DType;
using ir::Op;
using ir::OptOp;
using testing::KernelBuilder;
using N = const Node*;

// Source text is the printed program here: the tests are about order and identity, not C.
CodegenOptions options(Heuristic heuristic = Heuristic::kCpu) {
  CodegenOptions o = cpu_options(*hal::parse_target("cpu:x86-64-v3"));
  o.target.threads = 1;
  o.heuristic = heuristic;
  o.render = [](Graph&, std::span<const Node* const> linear,
                const std::string& name) -> Result<std::string> {
    std::string out = name + "\n";
    for (const Node* n : linear) {
      out += std::string(ir::op_name(n->op)) + " " + n->key.hex() + "\n";
    }
    return out;
  };
  return o;
}

int64_t count(N root, Op op) {
  int64_t n = 0;
  for (N s : ir::toposort(root)) n += s->op == op ? 1 : 0;
  return n;
}

N lowered(Graph& g, N ast, const CodegenOptions& o) {
  auto r = full_rewrite_to_sink(g, ast, o, ast->tag == 0);
  EXPECT_TRUE(r.ok()) << r.error().what;
  return r.ok() ? *r : ast;
}

// Widths of vector loads, sorted.
std::multiset<int64_t> load_widths(N root) {
  std::multiset<int64_t> out;
  for (N n : ir::toposort(root)) {
    if (n->op != Op::kLoad) continue;
    out.insert(n->src(0)->op == Op::kShrink ? *ir::int_value(n->src(0)->src(2)) : 1);
  }
  return out;
}

N row_sum(KernelBuilder& b, int64_t rows, int64_t cols) {
  N i = b.loop(rows), r = b.reduce_loop(cols);
  N x = b.at(b.param(1, rows * cols), b.add(b.times(i, cols), r));
  return b.kernel(b.param(0, rows), i, b.reduce(Op::kAdd, x, {r}), {i});
}

N elementwise(KernelBuilder& b, int64_t n, ir::KernelInfo info = {}) {
  N i = b.loop(n);
  N v = b.add(b.at(b.param(1, n), i), b.at(b.param(2, n), i));
  return b.kernel(b.param(0, n), i, v, {i}, std::move(info));
}

N matmul(KernelBuilder& b, int64_t m, int64_t n, int64_t k) {
  N i = b.loop(m), j = b.loop(n), r = b.reduce_loop(k);
  N x = b.at(b.param(1, m * k), b.add(b.times(i, k), r));
  N y = b.at(b.param(2, k * n), b.add(b.times(r, n), j));
  return b.kernel(b.param(0, m * n), b.add(b.times(i, n), j), b.reduce(Op::kAdd, b.mul(x, y), {r}),
                  {i, j});
}

// ---- the worked example: y = (x(4,10) padded to 12, times 2).sum(1) ----

N padded_sum(KernelBuilder& b) {
  N i = b.loop(4), r = b.reduce_loop(12);
  N gate = b.inside(r, 1, 11);
  N x = b.padded(b.param(1, 40), gate, b.add(b.add(b.times(i, 10), r), b.i(-1)));
  return b.kernel(b.param(0, 4), i, b.reduce(Op::kAdd, b.mul(x, b.f(2)), {r}), {i});
}

TEST(FullRewriteToSink, PaddedSumIsFiveLoadsNineAddsOneMultiplyOneStore) {
  Graph g;
  KernelBuilder b(g);
  CodegenOptions o = options(Heuristic::kReference);
  o.caps.unaligned_vectors = false;
  N p = lowered(g, padded_sum(b), o);
  EXPECT_EQ(load_widths(p), (std::multiset<int64_t>{2, 2, 2, 2, 2}));
  EXPECT_EQ(count(p, Op::kStore), 1);
  EXPECT_EQ(count(p, Op::kWhere), 0);
  EXPECT_EQ(count(p, Op::kRange), 1);
  EXPECT_EQ(count(p, Op::kBuffer), 0);
  int64_t float_adds = 0;
  int64_t float_muls = 0;
  for (N n : ir::toposort(p)) {
    float_adds += n->op == Op::kAdd && n->dtype == DType::kF32 ? 1 : 0;
    float_muls += n->op == Op::kMul && n->dtype == DType::kF32 ? 1 : 0;
  }
  EXPECT_EQ(float_adds, 9);
  EXPECT_EQ(float_muls, 1);
}

TEST(FullRewriteToSink, OptimisedAstKeepsItsNameAndGivesCorrectReduce) {
  Graph g;
  KernelBuilder b(g);
  ir::KernelInfo info;
  info.name = "given";
  N ast = g.with_tag(g.with_arg(row_sum(b, 4, 64), info), 1);
  N p = lowered(g, ast, options());
  EXPECT_EQ(p->as<ir::KernelInfo>().name, "given");
  EXPECT_TRUE(p->as<ir::KernelInfo>().applied_opts.empty());
  EXPECT_EQ(count(p, Op::kRange), 2);
  EXPECT_EQ(count(p, Op::kReduce), 0);
}

// An IF over a number is nothing a kernel AST is checked for and nothing a program may hold.
TEST(FullRewriteToSink, WhatThePassesLeaveIsCheckedAfterTheLastOne) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(4);
  N out = b.param(0, 4);
  N odd = g.make(Op::kIf, DType::kVoid, {ir::const_int(g, 1, DType::kI32), b.at(out, b.i(0))});
  N ast = ir::sink(g, ir::NodeVec{b.end(b.store(out, i, b.f(1)), {i}), odd}, ir::KernelInfo{});
  CodegenOptions o = options();
  const auto checked = full_rewrite_to_sink(g, ast, o, true);
  ASSERT_FALSE(checked.ok());
  EXPECT_NE(checked.error().what.find("program spec"), std::string::npos) << checked.error().what;
  o.spec = 0;
  EXPECT_TRUE(full_rewrite_to_sink(g, ast, o, true).ok()) << "SPEC=0 looks at nothing";
}

TEST(FullRewriteToSink, PassTableStatesAReasonForEveryEntry) {
  std::set<std::string> names;
  for (const KernelPass& p : kernel_passes()) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_GT(std::string(p.why).size(), 10U) << p.name;
  }
}

// ---- load_collapse, split_ranges, simplify_ranges ----

TEST(LoadCollapse, OneHotSumLosesItsLoop) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(6), r = b.reduce_loop(9);
  N at = b.at(b.param(2, 6, DType::kI32), i);
  N other = b.op(Op::kCmpNe, {at, ir::cast(g, r, DType::kI32)});
  N v = b.reduce(Op::kAdd, ir::where(g, other, b.f(0), b.at(b.param(1, 9), r)), {r});
  N out = load_collapse(g, b.kernel(b.param(0, 6), i, v, {i}), options());
  EXPECT_EQ(count(out, Op::kReduce), 0);
}

TEST(LoadCollapse, LeavesAMaskedSumAlone) {
  Graph g;
  KernelBuilder b(g);
  N r = b.reduce_loop(9);
  N v = ir::where(g, ir::lt(g, r, b.i(4)), b.at(b.param(1, 9), r), b.f(0));
  N out =
      load_collapse(g, b.kernel(b.param(0, 1), b.i(0), b.reduce(Op::kAdd, v, {r}), {}), options());
  EXPECT_EQ(count(out, Op::kReduce), 1);
}

TEST(SplitRanges, ModuloOfADivisorBecomesTwoLoops) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(12);
  N v = b.at(b.param(1, 4), b.op(Op::kFloorMod, {i, b.i(4)}));
  N out = split_ranges(g, b.kernel(b.param(0, 12), i, v, {i}), options());
  EXPECT_EQ(count(out, Op::kRange), 2);
  EXPECT_EQ(count(out, Op::kFloorMod), 0);
}

TEST(SplitRanges, KeepsALoopWhoseSizeDoesNotDivide) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(10);
  N v = b.at(b.param(1, 4), b.op(Op::kFloorMod, {i, b.i(4)}));
  EXPECT_EQ(count(split_ranges(g, b.kernel(b.param(0, 10), i, v, {i}), options()), Op::kRange), 1);
}

TEST(SimplifyRanges, MergesContiguousLoopsOnly) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(6), j = b.loop(5);
  N at = b.add(b.times(i, 5), j);
  N flat = b.kernel(b.param(0, 30), at, b.at(b.param(1, 30), at), {i, j});
  EXPECT_EQ(count(simplify_ranges(g, flat, options()), Op::kRange), 1);
  N turned = b.kernel(b.param(0, 30), at, b.at(b.param(1, 30), b.add(b.times(j, 6), i)), {i, j});
  EXPECT_EQ(count(simplify_ranges(g, turned, options()), Op::kRange), 2);
}

TEST(SimplifyRanges, ShrinksALoopWhoseStoresAreGated) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(16);
  N v = b.at(b.param(1, 16), i);
  N ast = b.kernel(b.param(0, 16), b.gated(ir::lt(g, i, b.i(10)), i), v, {i});
  N out = simplify_ranges(g, ast, options());
  EXPECT_EQ(ir::vmax(g, all_ranges(out)[0]), 9);
}

// ---- apply_opt ----

TEST(ApplyOpt, IllegalOptsAreErrorsAndChangeNothing) {
  Graph g;
  KernelBuilder b(g);
  N ast = matmul(b, 32, 64, 48);
  const CodegenOptions o = options();
  const std::vector<ir::Opt> illegal = {
      {OptOp::kUpcast, 0, 5},    // does not divide
      {OptOp::kUpcast, 0, 32},   // above 16
      {OptOp::kUpcast, 2, 4},    // reduce axis
      {OptOp::kUpcast, 3, 4},    // no such axis
      {OptOp::kUpcast, -1, 4},   //
      {OptOp::kUnroll, 1, 4},    // only one reduce axis
      {OptOp::kUnroll, 0, 48},   // above 32
      {OptOp::kLocal, 0, 4},     // no locals
      {OptOp::kGroup, 0, 4},     //
      {OptOp::kGroupTop, 0, 4},  //
      {OptOp::kThread, 0, 128},  // does not divide
      {OptOp::kThread, 2, 2},    // reduce axis
      {OptOp::kSwap, 0, 1},      // not GLOBAL
      {OptOp::kPadTo, 0, 0},     // no amount
      {OptOp::kTc, 0, 0},        // no tensor cores
  };
  for (const ir::Opt& opt : illegal) {
    Scheduler s(g, ast, o);
    EXPECT_FALSE(s.apply_opt(opt).ok()) << ir::opt_text(opt);
    EXPECT_EQ(s.ast(), ast) << ir::opt_text(opt);
    EXPECT_TRUE(s.applied_opts().empty());
  }
}

TEST(ApplyOpt, SecondThreadAxisAndPaddedVectorsAreRefused) {
  Graph g;
  KernelBuilder b(g);
  Scheduler s(g, matmul(b, 32, 64, 48), options());
  ASSERT_TRUE(s.apply_opt({OptOp::kThread, 0, 4}).ok());
  EXPECT_FALSE(s.apply_opt({OptOp::kThread, 0, 2}).ok());
  ASSERT_TRUE(s.apply_opt({OptOp::kUpcast, 1, 4}).ok());
  for (size_t a = 0; a < s.axes().size(); ++a) {
    const bool refused = s.type(a) == AxisType::kUpcast || s.type(a) == AxisType::kThread;
    Scheduler copy = s;
    if (refused) {
      EXPECT_FALSE(copy.apply_opt({OptOp::kPadTo, static_cast<int64_t>(a), 5}).ok());
    }
  }
}

TEST(ApplyOpt, GroupNeedsSharedMemoryThatFits) {
  Graph g;
  KernelBuilder b(g);
  CodegenOptions o = options();
  o.caps.has_locals = true;
  o.caps.shared_max = 64;
  Scheduler s(g, row_sum(b, 4, 64), o);
  EXPECT_FALSE(s.apply_opt({OptOp::kGroup, 0, 32}).ok());
  EXPECT_TRUE(s.apply_opt({OptOp::kGroup, 0, 16}).ok());
  EXPECT_FALSE(s.apply_opt({OptOp::kNoLocals, 0, 0}).ok());
}

TEST(ApplyOpt, NoLocalsForbidsThemAfterwards) {
  Graph g;
  KernelBuilder b(g);
  CodegenOptions o = options();
  o.caps.has_locals = true;
  Scheduler s(g, row_sum(b, 4, 64), o);
  ASSERT_TRUE(s.apply_opt({OptOp::kNoLocals, 0, 0}).ok());
  EXPECT_FALSE(s.apply_opt({OptOp::kLocal, 0, 4}).ok());
  EXPECT_FALSE(s.apply_opt({OptOp::kGroupTop, 0, 4}).ok());
}

TEST(ApplyOpt, PadToMasksAddressesOfTheLargerAxis) {
  Graph g;
  KernelBuilder b(g);
  Scheduler s(g, elementwise(b, 30), options());
  ASSERT_TRUE(s.apply_opt({OptOp::kPadTo, 0, 16}).ok());
  EXPECT_EQ(s.size(0), 32);
  for (N address : s.buffers()) EXPECT_NE(split_gate(address->src(1)).gate, nullptr);
}

TEST(ApplyOpts, ExplicitListWinsAndEmptyMeansNone) {
  Graph g;
  KernelBuilder b(g);
  ir::KernelInfo info;
  info.opts_to_apply = ir::Opts{};
  N none = apply_opts(g, elementwise(b, 64, info), options());
  EXPECT_TRUE(none->as<ir::KernelInfo>().applied_opts.empty());
  info.opts_to_apply = ir::Opts{{OptOp::kUpcast, 0, 8}};
  N eight = apply_opts(g, elementwise(b, 64, info), options());
  EXPECT_EQ(eight->as<ir::KernelInfo>().applied_opts, (ir::Opts{{OptOp::kUpcast, 0, 8}}));
  EXPECT_EQ(eight->tag, 1U);
}

TEST(ApplyOpts, NooptAppliesNothing) {
  Graph g;
  KernelBuilder b(g);
  CodegenOptions o = options();
  o.noopt = true;
  N ast = apply_opts(g, elementwise(b, 64), o);
  EXPECT_TRUE(ast->as<ir::KernelInfo>().applied_opts.empty());
  EXPECT_EQ(ast->as<ir::KernelInfo>().name, "E_64");
}

TEST(ApplyOpts, ReplayOfAppliedOptsGivesTheSameSource) {
  Graph g;
  KernelBuilder b(g);
  N ast = matmul(b, 32, 64, 48);
  auto first = to_program(g, ast, options());
  ASSERT_TRUE(first.ok()) << first.error().what;
  ir::KernelInfo info;
  info.opts_to_apply = first->applied_opts;
  auto again = to_program(g, g.with_arg(ast, info), options());
  ASSERT_TRUE(again.ok()) << again.error().what;
  const auto body = [](const Program& p) { return p.source.substr(p.source.find('\n')); };
  EXPECT_FALSE(first->applied_opts.empty());
  EXPECT_EQ(first->applied_opts, again->applied_opts);
  EXPECT_EQ(body(*first), body(*again));
}

// ---- remove_reduces ----

TEST(RemoveReduces, EqualRangesShareOneLoop) {
  Graph g;
  KernelBuilder b(g);
  N r = b.reduce_loop(100);
  N x = b.at(b.param(1, 100), r);
  N v = b.add(b.reduce(Op::kAdd, x, {r}), b.reduce(Op::kMax, x, {r}));
  CodegenOptions o = options();
  o.noopt = true;
  N p = lowered(g, b.kernel(b.param(0, 1), b.i(0), v, {}), o);
  EXPECT_EQ(count(p, Op::kEnd), 1);
  EXPECT_EQ(count(p, Op::kBuffer), 2);
}

TEST(RemoveReduces, AReduceThatNeedsAnotherGetsItsOwnLoop) {
  Graph g;
  KernelBuilder b(g);
  N r = b.reduce_loop(100);
  N x = b.at(b.param(1, 100), r);
  N top = b.reduce(Op::kMax, x, {r});
  N v = b.reduce(Op::kAdd, b.op(Op::kSub, {x, top}), {r});
  CodegenOptions o = options();
  o.noopt = true;
  N p = lowered(g, b.kernel(b.param(0, 1), b.i(0), v, {}), o);
  EXPECT_EQ(count(p, Op::kEnd), 2);
  EXPECT_EQ(count(p, Op::kRange), 2);
}

// ---- memory_coalescing ----

// Loads buffer[base + k] for each k, summed; base = i * pitch.
N reads(KernelBuilder& b,
        int64_t pitch,
        const std::vector<int64_t>& offsets,
        DType t = DType::kF32,
        bool is_volatile = false) {
  N i = b.loop(4);
  N buffer = b.param(1, 4 * pitch + 64, t);
  if (is_volatile) {
    ir::ParamArg arg = buffer->as<ir::ParamArg>();
    arg.is_volatile = true;
    buffer = b.g.with_arg(buffer, arg);
  }
  N v = nullptr;
  for (int64_t k : offsets) {
    N x = b.at(buffer, b.add(b.times(i, pitch), b.i(k)));
    v = v == nullptr ? x : b.add(v, x);
  }
  return b.kernel(b.param(0, 4, t), i, v, {i});
}

std::multiset<int64_t> widths_of(int64_t pitch,
                                 const std::vector<int64_t>& offsets,
                                 bool unaligned,
                                 DType t = DType::kF32,
                                 bool is_volatile = false) {
  Graph g;
  KernelBuilder b(g);
  CodegenOptions o = options();
  o.noopt = true;
  o.caps.unaligned_vectors = unaligned;
  return load_widths(lowered(g, reads(b, pitch, offsets, t, is_volatile), o));
}

using Widths = std::multiset<int64_t>;

TEST(MemoryCoalescing, WidthsFollowTheProvenAlignment) {
  EXPECT_EQ(widths_of(16, {0, 1, 2, 3}, false), (Widths{4}));
  EXPECT_EQ(widths_of(6, {0, 1, 2, 3}, false), (Widths{2, 2}));
  EXPECT_EQ(widths_of(7, {0, 1, 2, 3}, false), (Widths{1, 1, 1, 1}));
  EXPECT_EQ(widths_of(16, {1, 2, 3, 4}, false), (Widths{1, 1, 2}));
  EXPECT_EQ(widths_of(16, {2, 3, 4, 5, 6, 7}, false), (Widths{2, 4}));
  EXPECT_EQ(widths_of(7, {1, 2, 3, 4}, true), (Widths{4}));
}

TEST(MemoryCoalescing, TailsAndGapsSplitRuns) {
  EXPECT_EQ(widths_of(32, {0, 1, 2, 3, 4, 5, 6}, true), (Widths{1, 2, 4}));
  EXPECT_EQ(widths_of(32, {0, 1, 3, 4}, true), (Widths{2, 2}));
}

TEST(MemoryCoalescing, HalvesAndBytesUseTheSameWidths) {
  EXPECT_EQ(widths_of(16, {0, 1, 2, 3, 4, 5, 6, 7}, false, DType::kF16), (Widths{8}));
  EXPECT_EQ(widths_of(16, {0, 1, 2, 3, 4, 5, 6, 7}, false, DType::kU8), (Widths{8}));
}

TEST(MemoryCoalescing, VolatileIsNotTouched) {
  EXPECT_EQ(widths_of(16, {0, 1, 2, 3}, true, DType::kF32, true), (Widths{1, 1, 1, 1}));
}

// Accumulators have no addresses: four of them in a row stay four.
TEST(MemoryCoalescing, RegistersAreNotTouched) {
  Graph g;
  KernelBuilder b(g);
  N registers = ir::buffer(g, g.fresh(), DType::kF32, 4, ir::AddrSpace::kReg, "");
  ir::NodeVec stores, loads;
  for (int64_t k = 0; k < 4; ++k) stores.push_back(b.store(registers, b.i(k), b.f(1)));
  N written = after(g, registers, stores);
  for (int64_t k = 0; k < 4; ++k)
    loads.push_back(
        b.store(b.param(0, 4), b.i(k), g.make(Op::kLoad, DType::kF32, {b.at(written, b.i(k))})));
  N root = ir::sink(g, loads, ir::KernelInfo{});
  N out = memory_coalescing(g, root, options());
  ASSERT_TRUE(g.status().ok()) << g.status().error().what;
  std::multiset<int64_t> registers_widths, memory_widths;
  for (N n : ir::toposort(out)) {
    if (n->op != Op::kLoad && n->op != Op::kStore) continue;
    const bool is_register = memory_space(memory_root(n->src(0))) == ir::AddrSpace::kReg;
    const int64_t width = n->src(0)->op == Op::kShrink ? *ir::int_value(n->src(0)->src(2)) : 1;
    (is_register ? registers_widths : memory_widths).insert(width);
  }
  EXPECT_EQ(registers_widths, (Widths{1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(memory_widths, (Widths{4})) << "the same four in memory are one";
}

TEST(MemoryCoalescing, DifferentMasksAreNotMerged) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(4);
  N image = b.param(1, 64);
  N base = b.times(i, 4);
  N one = b.padded(image, ir::lt(g, i, b.i(3)), base);
  N two = b.padded(image, ir::lt(g, i, b.i(2)), b.add(base, b.i(1)));
  CodegenOptions o = options();
  o.noopt = true;
  N p = lowered(g, b.kernel(b.param(0, 4), i, b.add(one, two), {i}), o);
  EXPECT_EQ(load_widths(p), (Widths{1, 1}));
}

TEST(MemoryCoalescing, TwoStoresToOnePlaceAreAnError) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(4);
  N out = b.param(0, 4);
  N both = group(g, {b.store(out, i, b.f(1)), b.store(out, i, b.f(2))});
  auto r = full_rewrite_to_sink(g, b.kernel({b.end(both, {i})}), options(), true);
  EXPECT_FALSE(r.ok());
}

// ---- gates ----

TEST(MoveGates, EveryGatedAccessCarriesItsGate) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(13);
  N gate = b.inside(i, 2, 11);
  N x = b.padded(b.param(1, 9), gate, b.add(i, b.i(-2)));
  CodegenOptions o = options();
  o.noopt = true;
  N p = lowered(g, b.kernel(b.param(0, 13), i, x, {i}), o);
  for (N n : ir::toposort(p)) {
    if (n->op == Op::kLoad) {
      EXPECT_EQ(n->nsrc, 3U);
    }
  }
}

// ---- decompositions ----

TEST(FastDivision, MagicNumbersOfTheHandbook) {
  const auto magic = [](int64_t d, int64_t vmax) {
    const auto m = magic_division(d, vmax);
    return std::make_pair(m->multiplier, m->shift);
  };
  EXPECT_EQ(magic(3, 255), std::make_pair(int64_t{171}, int64_t{9}));
  EXPECT_EQ(magic(3, 100), std::make_pair(int64_t{43}, int64_t{7}));
  EXPECT_EQ(magic(7, 1000), std::make_pair(int64_t{1171}, int64_t{13}));
  EXPECT_EQ(magic(10, 65535), std::make_pair(int64_t{52429}, int64_t{19}));
  EXPECT_EQ(magic(5, 2147483647), std::make_pair(int64_t{1717986919}, int64_t{33}));
  EXPECT_EQ(magic(12, 4095), std::make_pair(int64_t{2731}, int64_t{15}));
}

TEST(FastDivision, IsExactOverItsWholeRange) {
  for (int64_t d : {3, 5, 7, 10, 12, 100}) {
    const auto m = magic_division(d, 65535);
    ASSERT_TRUE(m);
    for (int64_t x = 0; x <= 65535; ++x) ASSERT_EQ(x * m->multiplier >> m->shift, x / d);
  }
}

// ---- linearize, control flow ----

void expect_nested(const ir::NodeVec& order) {
  std::vector<N> open;
  std::set<N> seen;
  for (N n : order) {
    for (N s : n->src()) EXPECT_TRUE(seen.contains(s));
    seen.insert(n);
    if (n->op == Op::kRange) open.push_back(n);
    if (n->op == Op::kEnd) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), n->src(1));
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST(Linearize, LoopsAreNestedAndSourcesComeFirst) {
  Graph g;
  for (int64_t n : {8, 33, 100}) {
    KernelBuilder b(g);
    expect_nested(linearize(g, lowered(g, matmul(b, n, n, n), options())));
    KernelBuilder c(g);
    CodegenOptions o = options();
    o.noopt = true;
    expect_nested(linearize(g, lowered(g, c.conv(3, 4, n, n, 3, 1), o)));
  }
}

TEST(CFGContext, ALoopBeforeWhatItNeedsIsAnError) {
  Graph g;
  KernelBuilder b(g);
  N outer = b.loop(4), inner = b.loop(5);
  N out = b.param(0, 20);
  // The first loop's body waits for the second loop's end, and the second's range for the first.
  N first = b.end(b.store(out, outer, b.f(1)), {outer});
  N late = g.make(Op::kRange, inner->dtype, {inner->src(0), first}, *inner->arg);
  N second = b.end(b.store(out, late, b.f(2)), {late});
  N waits = after(g, out, {second});
  N third = g.make(Op::kEnd, DType::kVoid, {b.store(waits, outer, b.f(3)), outer});
  N root = ir::sink(g, ir::NodeVec{first, second, third});
  (void)control_flow(g, root, options());
  EXPECT_TRUE(g.failed());
}

// ---- keys, determinism, information ----

TEST(ToProgramKey, EveryCodeOptionChangesItAndDiagnosticsDoNot) {
  Graph g;
  KernelBuilder b(g);
  N ast = elementwise(b, 64);
  const CodegenOptions base = options();
  std::set<std::string> keys{to_program_key(ast, base).hex()};
  const auto fresh = [&](const char* what, auto change) {
    CodegenOptions o = base;
    change(o);
    EXPECT_TRUE(keys.insert(to_program_key(ast, o).hex()).second) << what;
  };
  fresh("noopt", [](auto& o) { o.noopt = true; });
  fresh("double", [](auto& o) { o.double_acc = true; });
  fresh("contract", [](auto& o) { o.no_contract = true; });
  fresh("idiv", [](auto& o) { o.fast_idiv = true; });
  fresh("heuristic", [](auto& o) { o.heuristic = Heuristic::kReference; });
  fresh("threads", [](auto& o) { o.target.threads = 5; });
  fresh("arch", [](auto& o) { o.target.arch = "aarch64"; });
  fresh("feature", [](auto& o) { o.target.features.push_back("zz"); });
  fresh("renderer", [](auto& o) { o.target.renderer = "x86"; });
  fresh("unaligned", [](auto& o) { o.caps.unaligned_vectors = false; });
  fresh("pack", [](auto& o) { o.caps.pack_lanes = false; });
  fresh("trunc", [](auto& o) { o.caps.has_trunc = !o.caps.has_trunc; });
  fresh("f16", [](auto& o) { o.caps.native_f16 = !o.caps.native_f16; });
  fresh("i64", [](auto& o) { o.caps.native_i64 = false; });
  fresh("mulacc", [](auto& o) { o.caps.has_mulacc = true; });
  fresh("widths", [](auto& o) { o.caps.widths32 = {4, 2}; });
  fresh("wide widths", [](auto& o) { o.caps.widths64 = {2}; });
  fresh("any vectors", [](auto& o) { o.caps.any_vectors = false; });
  fresh("kind", [](auto& o) { o.target.kind = "cl"; });
  fresh("language", [](auto& o) { o.caps.name = "cl"; });
  fresh("locals", [](auto& o) { o.caps.has_locals = true; });
  fresh("no threads", [](auto& o) { o.caps.has_threads = false; });
  fresh("shared memory", [](auto& o) { o.caps.shared_max = 1024; });
  for (int d = 0; d < 3; ++d) {
    fresh("grid", [d](auto& o) { o.caps.global_max[d] = 77; });
    fresh("group", [d](auto& o) { o.caps.local_max[d] = 77; });
  }
  fresh("items", [](auto& o) { o.caps.group_max = 77; });
  fresh("exp2", [](auto& o) { o.caps.has_exp2 = true; });
  fresh("log2", [](auto& o) { o.caps.has_log2 = true; });
  fresh("sin", [](auto& o) { o.caps.has_sin = true; });
  fresh("image", [](auto& o) { o.caps.image = true; });
  fresh("nolocals", [](auto& o) { o.nolocals = true; });
  fresh("tc", [](auto& o) { o.tc = 0; });
  fresh("tc shapes", [](auto& o) { o.tc = 2; });
  fresh("tc level", [](auto& o) { o.tc_opt = 2; });
  fresh("cores", [](auto& o) { o.caps.tensor_cores = {"rdna3_f16_f32"}; });
  fresh("other cores", [](auto& o) { o.caps.tensor_cores = {"rdna3_f16_f16"}; });
  EXPECT_TRUE(keys.insert(to_program_key(g.with_tag(ast, 1), base).hex()).second) << "optimise";
  CodegenOptions diagnostics = base;
  diagnostics.spec = 0;
  diagnostics.debug = 5;
  EXPECT_FALSE(keys.insert(to_program_key(ast, diagnostics).hex()).second);
}

TEST(ToProgram, TextDoesNotDependOnWhatTheGraphHoldsAlready) {
  Graph a;
  KernelBuilder ba(a);
  auto first = to_program(a, ba.conv(3, 8, 9, 16, 3, 1), options());
  Graph c;
  for (int k = 0; k < 100; ++k) (void)c.fresh();
  KernelBuilder other(c);
  (void)matmul(other, 7, 9, 11);
  KernelBuilder bc(c);
  auto second = to_program(c, bc.conv(3, 8, 9, 16, 3, 1), options());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->name, second->name);
  EXPECT_EQ(first->source, second->source);
}

// Kernels are lowered beside each other: what one dumps must not be another's.
TEST(ToProgram, DumpsOfKernelsDoNotMeet) {
  const auto dir = TempDir::create("dump");
  ASSERT_TRUE(dir.ok());
  setenv("MODELD_DUMP", dir->path().c_str(), 1);
  std::vector<std::string> keys;
  for (const int64_t size : {64, 96}) {
    Graph g;
    KernelBuilder b(g);
    const auto p = to_program(g, elementwise(b, size), options());
    ASSERT_TRUE(p.ok()) << p.error().what;
    keys.push_back(p->key.hex().substr(0, 12));
  }
  unsetenv("MODELD_DUMP");
  for (const std::string& key : keys)
    for (size_t i = 0; i < kernel_passes().size(); ++i) {
      const std::string name = pass::dump_name("kernel_" + key, i, kernel_passes()[i].name);
      EXPECT_TRUE(file_exists(join_path(dir->path(), name))) << name;
    }
}

TEST(ToProgram, ProgramInputContinuesTheChainOnly) {
  Graph g;
  KernelBuilder b(g);
  ir::ProgramInfo info;
  info.name = "mine";
  N sink = lowered(g, elementwise(b, 64), options());
  auto p = to_program(g, g.make(Op::kProgram, DType::kVoid, {sink}, info), options());
  ASSERT_TRUE(p.ok()) << p.error().what;
  EXPECT_EQ(p->name, "mine");
}

TEST(ToProgram, StagesThatAreThereAreNotMadeAgain) {
  Graph g;
  KernelBuilder b(g);
  CodegenOptions o = options();
  int rendered = 0;
  o.render = [&, render = o.render](Graph& graph, std::span<const Node* const> linear,
                                    const std::string& name) {
    ++rendered;
    return render(graph, linear, name);
  };
  N sink = lowered(g, elementwise(b, 64), o);
  ir::ProgramInfo info;
  info.name = "mine";
  N program = g.make(Op::kProgram, DType::kVoid, {sink}, info);
  auto with_linear = do_linearize(g, program);
  ASSERT_TRUE(with_linear.ok());
  EXPECT_EQ((*with_linear)->nsrc, 2u);
  EXPECT_EQ(*do_linearize(g, *with_linear), *with_linear) << "the order is kept";
  auto with_source = do_render(g, *with_linear, o);
  ASSERT_TRUE(with_source.ok());
  EXPECT_EQ(rendered, 1);
  auto p = to_program(g, *with_source, o);
  ASSERT_TRUE(p.ok()) << p.error().what;
  EXPECT_EQ(rendered, 1) << "a PROGRAM with its SOURCE is only compiled";
  EXPECT_EQ(p->source, (*with_source)->src(2)->as<std::string>());
}

TEST(ToProgram, AProgramWithoutItsInformationGetsIt) {
  Graph g;
  KernelBuilder b(g);
  N sink = lowered(g, elementwise(b, 64), options());
  auto p = to_program(g, g.make(Op::kProgram, DType::kVoid, ir::NodeVec{sink}), options());
  ASSERT_TRUE(p.ok()) << p.error().what;
  EXPECT_EQ(p->info.globals, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_FALSE(p->name.empty());
}

TEST(ToProgram, RefusesProgramsThatAreNone) {
  Graph g;
  KernelBuilder b(g);
  N ast = elementwise(b, 64);
  // An AST where the lowered sink belongs, nothing at all, and stages in another order.
  EXPECT_FALSE(to_program(g, g.make(Op::kProgram, DType::kVoid, ir::NodeVec{ast}), options()).ok());
  EXPECT_FALSE(to_program(g, g.make(Op::kProgram, DType::kVoid, ir::NodeVec{}), options()).ok());
  EXPECT_FALSE(to_program(g, g.make(Op::kProgram, DType::kVoid, {ast, ast}), options()).ok());
}

TEST(ToProgram, RefusesWhatIsNotAKernel) {
  Graph g;
  KernelBuilder b(g);
  EXPECT_FALSE(to_program(g, b.i(3), options()).ok());
  N bare = ir::sink(g, ir::NodeVec{b.store(b.param(0, 1), b.i(0), b.f(1))});
  EXPECT_FALSE(to_program(g, bare, options()).ok());
}

TEST(ProgramInfo, EstimatesCountBytesOncePerBuffer) {
  Graph g;
  const auto mem = [&](bool same) {
    KernelBuilder b(g);
    const int64_t n = 1024 * 1024;
    N i = b.loop(n);
    N x = b.at(b.param(1, n, DType::kU8), i);
    N y = same ? x : b.at(b.param(2, n, DType::kU8), i);
    auto p = to_program(g, b.kernel(b.param(0, n, DType::kU8), i, b.add(x, y), {i}), options());
    EXPECT_TRUE(p.ok());
    return p.ok() ? p->info.mem_bytes : 0;
  };
  EXPECT_EQ(mem(false), 3 << 20);
  EXPECT_EQ(mem(true), 2 << 20);
}

TEST(ProgramInfo, MatmulIsTwoFlopsPerStep) {
  Graph g;
  KernelBuilder b(g);
  auto p = to_program(g, matmul(b, 64, 64, 64), options());
  ASSERT_TRUE(p.ok()) << p.error().what;
  EXPECT_EQ(p->info.flops, 2 * 64 * 64 * 64);
  EXPECT_EQ(p->info.globals, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(p->info.outs, (std::vector<int64_t>{0}));
  EXPECT_EQ(p->info.ins, (std::vector<int64_t>{1, 2}));
}

}  // namespace
}  // namespace modeld::codegen
