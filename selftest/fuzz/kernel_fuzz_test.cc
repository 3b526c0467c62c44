// The rules of kernel-fuzz's oracle, of its shrinking and its forecast, and kernels that it once
// found to go wrong.
#include <gtest/gtest.h>

#include <cmath>

#include "selftest/fuzz/kernel_approx.h"
#include "selftest/fuzz/kernel_ast.h"
#include "selftest/fuzz/kernel_oracle.h"
#include "selftest/fuzz/kernel_run.h"
#include "selftest/fuzz/kernel_shrink.h"

namespace modeld::fuzz {
namespace {

using ir::DType;
using ir::Op;

// ---- oracle ----

TEST(KernelOracle, ASumsBoundGrowsWithItsTerms) {
  ApproxReduce few(Op::kAdd, DType::kF32), many(Op::kAdd, DType::kF32);
  for (int k = 0; k < 4; ++k) few.add(Approx::of_float(1));
  for (int k = 0; k < 400; ++k) many.add(Approx::of_float(1));
  EXPECT_EQ(few.result().v, 4);
  EXPECT_GT(many.result().err, few.result().err * 100);
  EXPECT_LT(many.result().err, 400 * 400 * 0x1p-23);
}

TEST(KernelOracle, IntegersWrapInEveryOrder) {
  ApproxReduce sum(Op::kAdd, DType::kI8);
  for (int k = 0; k < 300; ++k) sum.add(Approx::of_int(1));
  EXPECT_EQ(sum.result().i, 44);
}

TEST(KernelOracle, AComparisonThatRoundingDecidesIsUnknown) {
  const Approx near[2] = {Approx::of_float(1, 0x1p-20L), Approx::of_float(1 + 0x1p-22L)};
  EXPECT_FALSE(approx_alu(Op::kCmpLt, DType::kF32, near).is_known);
  const Approx apart[2] = {Approx::of_float(1, 0x1p-20L), Approx::of_float(2)};
  EXPECT_TRUE(approx_alu(Op::kCmpLt, DType::kF32, apart).is_known);
  const Approx exact[2] = {Approx::of_float(1), Approx::of_float(1)};
  EXPECT_EQ(approx_alu(Op::kCmpEq, DType::kF32, exact).i, 1);
}

TEST(KernelOracle, AnUndecidedChoiceOfFloatsCoversBothArms) {
  const Approx v =
      approx_where(DType::kF32, Approx::unknown(), Approx::of_float(1), Approx::of_float(3, 0.5L));
  EXPECT_TRUE(agrees(DType::kF32, v, 1, 0));
  EXPECT_TRUE(agrees(DType::kF32, v, 3.5, 0));
  EXPECT_FALSE(agrees(DType::kF32, v, 3.6, 0));
}

TEST(KernelOracle, SpecialValuesFollowIeee) {
  const Approx infinities[2] = {Approx::of_float(INFINITY), Approx::of_float(-INFINITY)};
  EXPECT_TRUE(std::isnan(approx_alu(Op::kAdd, DType::kF32, infinities).v));
  const Approx overflow[2] = {Approx::of_float(3e38L), Approx::of_float(3e38L)};
  EXPECT_FALSE(approx_alu(Op::kAdd, DType::kF32, overflow).is_known);
  const Approx nan[2] = {Approx::of_float(NAN), Approx::of_float(1)};
  EXPECT_TRUE(agrees(DType::kF32, approx_alu(Op::kMax, DType::kF32, nan), NAN, 0));
  EXPECT_FALSE(agrees(DType::kF32, approx_alu(Op::kMax, DType::kF32, nan), 1, 0));
}

// sum(c * x) may be c * sum(x).
TEST(KernelOracle, InfinitiesThatCancelAreNobodysNaN) {
  ApproxReduce cancel(Op::kAdd, DType::kF32), nan(Op::kAdd, DType::kF32);
  for (ApproxReduce* r : {&cancel, &nan}) {
    r->add(Approx::of_float(INFINITY));
    r->add(Approx::of_float(-INFINITY));
  }
  nan.add(Approx::of_float(NAN));
  EXPECT_FALSE(cancel.result().is_known);
  EXPECT_TRUE(nan.result().is_known);
}

// Recipes by hand.
class KernelFindings : public ::testing::Test {
 protected:
  KernelRecipe r;

  size_t push(KernelStep s) {
    r.steps.push_back(std::move(s));
    return r.steps.size() - 1;
  }
  size_t read(DType t, std::vector<Term> terms) {
    KernelStep s;
    s.kind = StepKind::kRead;
    s.dtype = t;
    s.buffer = r.buffers.size();
    s.terms = std::move(terms);
    r.buffers.push_back({t, read_size(r, s), 77 + r.buffers.size()});
    return push(s);
  }
  size_t constant(DType t, double v) {
    KernelStep s;
    s.dtype = t;
    s.value = v;
    return push(s);
  }
  size_t alu(Op op, DType t, std::vector<size_t> src) {
    KernelStep s;
    s.kind = StepKind::kAlu;
    s.op = op;
    s.dtype = t;
    s.src = std::move(src);
    return push(s);
  }
  size_t reduce(Op op, size_t v, std::vector<size_t> loops) {
    KernelStep s;
    s.kind = StepKind::kReduce;
    s.op = op;
    s.dtype = r.steps[v].dtype;
    s.src = {v};
    s.loops = std::move(loops);
    return push(s);
  }
  size_t cast(size_t v, DType t) {
    KernelStep s;
    s.kind = StepKind::kCast;
    s.dtype = t;
    s.src = {v};
    return push(s);
  }
  void loops(std::vector<RecipeLoop> l, size_t outputs) {
    r.loops = std::move(l);
    r.buffers.resize(outputs);
    r.outputs.resize(outputs);
    for (size_t k = 0; k < outputs; ++k) {
      for (size_t n = 0; n < r.loops.size(); ++n)
        if (!r.loops[n].is_reduce) r.outputs[k].order.push_back(n);
      r.outputs[k].flipped.resize(r.outputs[k].order.size());
    }
  }
  void store(size_t k, size_t v) {
    r.outputs[k].value = v;
    r.buffers[k].dtype = r.steps[v].dtype;
    r.buffers[k].size = output_size(r, r.outputs[k]);
  }
  // "" or what goes wrong with these opts, on both paths.
  std::string outcome(const ir::Opts& opts = {}) {
    if (!is_sound(r)) return "the recipe is not sound";
    RunOptions o;
    o.with_x86 = host_has_x86_path();
    std::string all;
    for (uint64_t number = 0; number < 3; ++number)
      all += run_trials({{number, r, opts}}, o)[0].finding.text;
    return all;
  }
};

TEST_F(KernelFindings, TwoOutputsShareTheirLoops) {
  loops({{6, false}, {5, false}, {7, true}}, 2);
  const size_t x = read(DType::kF32, {{TermForm::kPlain, 0}, {TermForm::kPlain, 2}});
  const size_t y = read(DType::kF32, {{TermForm::kPlain, 1}, {TermForm::kPlain, 2}});
  store(0, reduce(Op::kAdd, alu(Op::kMul, DType::kF32, {x, y}), {2}));
  store(1, reduce(Op::kMax, alu(Op::kAdd, DType::kF32, {x, y}), {2}));
  EXPECT_EQ(outcome(), "");
  EXPECT_EQ(outcome({{ir::OptOp::kUpcast, 1, 5}, {ir::OptOp::kUnroll, 0, 7}}), "");
}

// The x86 allocator had the loaded byte in the accumulator's register.
TEST_F(KernelFindings, AMaximumOfBoolsKeepsItsAccumulator) {
  loops({{8, false}, {6, true}}, 1);
  const size_t any =
      reduce(Op::kMax, read(DType::kBool, {{TermForm::kPlain, 0}, {TermForm::kPlain, 1}}), {1});
  const size_t x = read(DType::kU32, {{TermForm::kPlain, 0}});
  store(0, alu(Op::kWhere, DType::kU32, {any, x, constant(DType::kU32, 15)}));
  EXPECT_EQ(outcome(), "");
}

// A vector of bools is a mask: its true is not 1.
TEST_F(KernelFindings, BoolsCompareAsLogicInVectors) {
  loops({{32, false}, {24, true}}, 1);
  const size_t one = read(DType::kBool, {{TermForm::kPlain, 0}});
  const size_t row = read(DType::kBool, {{TermForm::kPlain, 0}, {TermForm::kPlain, 1}});
  const size_t less = alu(Op::kCmpLt, DType::kBool, {one, row});
  const size_t x = read(DType::kU8, {{TermForm::kPlain, 0}});
  const size_t picked = alu(Op::kWhere, DType::kU8, {less, x, constant(DType::kU8, 1)});
  store(0, reduce(Op::kMax, cast(picked, DType::kF64), {1}));
  EXPECT_EQ(outcome({{ir::OptOp::kUnroll, 0, 6}, {ir::OptOp::kUpcast, 0, 4}}), "");
}

// 2^64 - 1 is the largest u64, not -1.
TEST_F(KernelFindings, TheLargestUnsignedNumberWins) {
  loops({{16, false}}, 1);
  const size_t x = cast(read(DType::kI16, {{TermForm::kPlain, 0}}), DType::kU64);
  store(0, alu(Op::kMax, DType::kU64, {x, constant(DType::kU64, -1)}));
  EXPECT_EQ(outcome(), "");
}

// Loops numbered anew by split_ranges met a loop that remove_reduces made.
TEST_F(KernelFindings, LoopsMadeLateAreNotLoopsSplitEarly) {
  loops({{8, false}, {2, false}, {16, false}, {4, true}, {12, true}}, 1);
  const size_t x = read(DType::kI32, {{TermForm::kMod, 0, 0, 4},
                                      {TermForm::kPlain, 1},
                                      {TermForm::kMod, 2, 0, 4},
                                      {TermForm::kPlain, 4}});
  const size_t y =
      read(DType::kI32, {{TermForm::kPlain, 2}, {TermForm::kPlain, 3}, {TermForm::kPlain, 4}});
  store(0, alu(Op::kAdd, DType::kI32, {reduce(Op::kMax, x, {3, 4}), reduce(Op::kAdd, y, {3, 4})}));
  EXPECT_EQ(outcome(), "");
}

// ---- forecast and shrinking ----

TEST(KernelForecast, SaysWhatTheRulesSay) {
  ir::Graph g;
  KernelRecipe r;
  r.loops = {{12, false}, {8, true}};
  r.buffers = {{DType::kF32, 12}, {DType::kF32, 96}};
  KernelStep s;
  s.kind = StepKind::kRead;
  s.buffer = 1;
  s.terms = {{TermForm::kPlain, 0}, {TermForm::kPlain, 1}};
  r.steps.push_back(s);
  KernelStep sum;
  sum.kind = StepKind::kReduce;
  sum.src = {0};
  sum.loops = {1};
  r.steps.push_back(sum);
  r.outputs.push_back({1, {0}, {false}});
  ASSERT_TRUE(is_sound(r));
  codegen::CodegenOptions o = codegen::cpu_options(*hal::parse_target("cpu:x86-64-v3"));
  const codegen::Scheduler sched(g, kernel_ast(g, r), o);
  EXPECT_EQ(forecast(sched, {ir::OptOp::kUpcast, 0, 4}), "");
  EXPECT_NE(forecast(sched, {ir::OptOp::kUpcast, 0, 5}), "");
  EXPECT_NE(forecast(sched, {ir::OptOp::kUpcast, 1, 4}), "");
  EXPECT_EQ(forecast(sched, {ir::OptOp::kUnroll, 0, 0}), "");
  EXPECT_NE(forecast(sched, {ir::OptOp::kUnroll, 1, 0}), "");
  EXPECT_NE(forecast(sched, {ir::OptOp::kLocal, 0, 4}), "");
  EXPECT_EQ(forecast(sched, {ir::OptOp::kPadTo, 0, 8}), "");
  EXPECT_NE(forecast(sched, {ir::OptOp::kPadTo, 0, 64}), "");
}

TEST(KernelShrink, LeavesWhatTheFindingNeeds) {
  KernelTrial big;
  for (uint64_t n = 0; big.recipe.steps.size() < 12; ++n) big = numbered_trial(5, n);
  big.opts = ir::Opts{{ir::OptOp::kUpcast, 0, 2}, {ir::OptOp::kNoLocals, 0, 0}};
  const auto has_opt = [](const KernelTrial& t) { return t.opts && !t.opts->empty(); };
  const KernelTrial small = shrink(big, has_opt);
  EXPECT_EQ(small.opts->size(), 1U);
  EXPECT_LE(small.recipe.steps.size(), 2U);
  EXPECT_TRUE(is_sound(small.recipe));
}

TEST(KernelTrial, IsAPureFunctionOfItsNumber) {
  for (uint64_t n = 0; n < 50; ++n) {
    EXPECT_EQ(print(numbered_trial(3, n).recipe), print(numbered_trial(3, n).recipe));
    EXPECT_TRUE(is_sound(numbered_trial(3, n).recipe)) << n;
  }
}

}  // namespace
}  // namespace modeld::fuzz
