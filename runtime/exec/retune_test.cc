#include "runtime/exec/retune.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/exec/kernel_ast.h"
#include "runtime/exec/prepare.h"
#include "runtime/ir/print.h"
#include "runtime/tensor/nn.h"

#include "selftest/testing/plan_lab.h"

namespace modeld::exec {
namespace {

using ir::OptOp;
using tensor::Tensor;
using test::result_of;
using test::text_of;

// y = relu(x w), z = row sums of y; w is a constant.
struct Model {
  ir::Graph g;
  tensor::WeightStore store;
  std::vector<EntrySpec> entries;
  CompileOptions options;

  explicit Model(const std::string& renderer = "c", int64_t inner = 32) {
    std::vector<float> w(static_cast<size_t>(inner) * 48);
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 29 % 61) / 61.0f - 0.5f;
    const Tensor x = Tensor::input(g, "x", {16, inner}, ir::DType::kF32);
    const Tensor y = x.matmul(Tensor::from_floats(g, store, w, {inner, 48})).maximum(0);
    EntrySpec run;
    run.name = "run";
    run.inputs = {{"x", x.node()}};
    run.outputs = {{"y", y.node()}, {"z", y.sum({1}).node()}};
    entries = {run};
    options.target = *hal::parse_target("cpu");
    options.target.renderer = renderer;
    options.program_cache = make_program_cache();
  }
  Plan plan() {
    auto p = compile_plan(g, entries, store, options);
    EXPECT_TRUE(p.ok()) << p.error().what;
    return p.ok() ? std::move(*p) : Plan{};
  }
};

// Every kernel with UNROLL by 2 where that is legal, which no rule chooses alone.
Recipes odd_recipes(const Plan& p) {
  Recipes out = *recipes_of(p);
  for (auto& [key, opts] : out) opts = {{OptOp::kUnroll, 0, 2}};
  return out;
}

class RetunePath : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Retune, RetunePath, ::testing::Values("c", "x86"), [](const auto& test) {
  return std::string(test.param);
});

TEST_P(RetunePath, ItsOwnOptsChangeNothing) {
  Model m(GetParam());
  Plan plan = m.plan();
  const std::string before = text_of(plan);
  const auto changed = retune(plan, *recipes_of(plan), NoRecipe::kRefuse, m.options);
  ASSERT_TRUE(changed.ok()) << changed.error().what;
  EXPECT_EQ(changed->changed, 0u);
  EXPECT_EQ(text_of(plan), before);
}

TEST_P(RetunePath, OtherOptsAreAppliedRecordedAndStillCompute) {
  Model m(GetParam());
  const Plan rule = m.plan();
  Plan plan = rule;
  const auto changed = retune(plan, odd_recipes(plan), NoRecipe::kRefuse, m.options);
  ASSERT_TRUE(changed.ok()) << changed.error().what;
  EXPECT_EQ(changed->changed, plan.programs.size());
  for (const ProgramRow& r : plan.programs) EXPECT_EQ(r.applied_opts, "[UNROLL(0,2)]");
  EXPECT_TRUE(
      std::is_sorted(plan.programs.begin(), plan.programs.end(),
                     [](const ProgramRow& a, const ProgramRow& b) { return a.key < b.key; }));
  EXPECT_TRUE(check_plan(plan, plan.weight_bytes.size(), 0).ok());
  const auto want = result_of(rule, 16 * 32), got = result_of(plan, 16 * 32);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << i;
}

TEST_P(RetunePath, RecordedOptsGiveTheSameProgramBytesInAnotherBuild) {
  Model first(GetParam()), second(GetParam());
  Plan tuned = first.plan();
  ASSERT_TRUE(retune(tuned, odd_recipes(tuned), NoRecipe::kRefuse, first.options).ok());
  Plan again = second.plan();
  EXPECT_NE(text_of(again), text_of(tuned));
  ASSERT_TRUE(retune(again, *recipes_of(tuned), NoRecipe::kRefuse, second.options).ok());
  EXPECT_EQ(text_of(again), text_of(tuned));
}

TEST_P(RetunePath, ARowAloneReproducesItsImage) {
  Model m(GetParam());
  Plan plan = m.plan();
  ASSERT_TRUE(retune(plan, odd_recipes(plan), NoRecipe::kRefuse, m.options).ok());
  const std::string before = text_of(plan);
  for (ProgramRow& r : plan.programs) strip_image(r);
  const auto made = prepare(plan, PreparePolicy::kMissing, m.options);
  ASSERT_TRUE(made.ok()) << made.error().what;
  EXPECT_EQ(made->prepared, plan.programs.size());
  EXPECT_EQ(text_of(plan), before);
}

TEST(Retune, AKernelWithoutARecipeIsRefusedOrKept) {
  Model m, wider("c", 40);
  Plan plan = m.plan();
  const Recipes others = odd_recipes(wider.plan());
  Plan refused = plan;
  const auto r = retune(refused, others, NoRecipe::kRefuse, m.options);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Errc::kNotFound);
  EXPECT_NE(r.error().what.find("of entry run"), std::string::npos) << r.error().what;
  EXPECT_EQ(text_of(refused), text_of(plan)) << "an error changes nothing";
  // The row sums do not depend on the inner size: they have a recipe, the product has none.
  Plan kept = plan;
  const auto k = retune(kept, others, NoRecipe::kKeep, m.options);
  ASSERT_TRUE(k.ok()) << k.error().what;
  EXPECT_EQ(k->changed, 1u);
}

TEST(Retune, AnIllegalOptNamesKernelAndOpt) {
  Model m;
  Plan plan = m.plan();
  Recipes wrong = *recipes_of(plan);
  for (auto& [key, opts] : wrong) opts = {{OptOp::kLocal, 0, 4}};
  const auto r = retune(plan, wrong, NoRecipe::kRefuse, m.options);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().what.find("LOCAL(0,4)"), std::string::npos) << r.error().what;
  EXPECT_NE(r.error().what.find("of entry run"), std::string::npos) << r.error().what;
}

TEST(Retune, DamagedRecordsAreErrors) {
  Model m;
  const Plan plan = m.plan();
  Plan opts = plan, ast = plan;
  opts.programs[0].applied_opts = "[UPCAST(0,4)";
  EXPECT_EQ(recipes_of(opts).error().code, Errc::kInvalid);
  ast.programs[0].ast_text = "%0 = nonsense";
  EXPECT_FALSE(recipes_of(ast).ok());
}

TEST(KernelIdentity, IsTheComputationsWithoutItsOpts) {
  Model m;
  const Plan plan = m.plan();
  ir::Graph g;
  const ir::Node* a = *kernel_ast(g, plan.programs[0], "first");
  const ir::Node* b = *kernel_ast(g, plan.programs[1], "second");
  const Hash128 id = kernel_identity(g, a, false);
  EXPECT_EQ(kernel_identity(g, with_opts(g, a, {{OptOp::kUnroll, 0, 2}}), false), id);
  EXPECT_EQ(kernel_identity(g, with_opts(g, a, {}), false), id);
  EXPECT_NE(kernel_identity(g, b, false), id);
  EXPECT_NE(kernel_identity(g, a, true), id);
  EXPECT_TRUE(has_explicit_opts(with_opts(g, a, {})));
  EXPECT_FALSE(has_explicit_opts(without_opts(g, with_opts(g, a, {}))));
}

TEST(OptsText, ReadsBackWhatItWrites) {
  const ir::Opts opts = {{OptOp::kUpcast, 1, 16}, {OptOp::kNoLocals, 0, 0}, {OptOp::kThread, 0, 2}};
  EXPECT_EQ(*ir::parse_opts(ir::opts_text(opts)), opts);
  EXPECT_TRUE(ir::parse_opts("[]")->empty());
  for (const char* bad : {"", "[", "[UPCAST(0,4)", "UPCAST(0,4)", "[UPCAST(0)]", "[NEW(0,1)]",
                          "[UPCAST(0,4)] ", "[UPCAST(0,99999999999999999999)]"})
    EXPECT_FALSE(ir::parse_opts(bad).ok()) << bad;
}

}  // namespace
}  // namespace modeld::exec
