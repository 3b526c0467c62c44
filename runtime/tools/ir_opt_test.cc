#include "runtime/tools/ir_opt.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/codegen/to_program.h"
#include "runtime/exec/lower_and_compile.h"
#include "runtime/ir/print.h"
#include "runtime/schedule/schedule.h"
#include "runtime/tensor/tensor.h"

namespace modeld::tools {
namespace {

using tensor::Tensor;

IrOptOptions host_options() {
  IrOptOptions o;
  o.target = *hal::parse_target("cpu");
  return o;
}

// A kernel AST as a bundle holds it.
std::string kernel_text() {
  ir::Graph g;
  const Tensor x = Tensor::input(g, "x", {4, 16}, ir::DType::kF32);
  const ir::Node* out = (x * 2.0).sum({1}).node();
  const auto s = schedule::make_schedule(g, std::span(&out, 1));
  EXPECT_TRUE(s.ok());
  return s.ok() ? ir::print(s->linear->src(0)->src(0)) : "";
}

Result<std::string> run(const std::string& text, std::vector<std::string> passes) {
  return ir_opt(text, passes, host_options());
}

TEST(IrOpt, NoPassGivesTheTextBack) {
  const std::string text = kernel_text();
  const auto out = run(text, {});
  ASSERT_TRUE(out.ok()) << out.error().what;
  EXPECT_EQ(*out, text);
}

TEST(IrOpt, StepsOfTheKernelTableEqualTheWholePipeline) {
  const std::string text = kernel_text();
  const auto whole = run(text, {"to_program"});
  ASSERT_TRUE(whole.ok()) << whole.error().what;
  EXPECT_NE(whole->find("void "), std::string::npos);
  const auto first = run(text, {"early_movement", "load_collapse", "split_ranges"});
  ASSERT_TRUE(first.ok()) << first.error().what;
  const auto second = run(*first, {"initial_symbolic", "simplify_ranges", "apply_opts"});
  ASSERT_TRUE(second.ok()) << second.error().what;
  const auto at_once = run(text, {"early_movement", "load_collapse", "split_ranges",
                                  "initial_symbolic", "simplify_ranges", "apply_opts"});
  ASSERT_TRUE(at_once.ok());
  EXPECT_EQ(*second, *at_once) << "a dump must be a place to continue from";
}

TEST(IrOpt, SchedulesATensorGraph) {
  ir::Graph g;
  const Tensor x = Tensor::input(g, "x", {4, 16}, ir::DType::kF32);
  const ir::Node* out = (x - x.sum({1}, true)).node();
  const auto text = run(ir::print(ir::sink(g, std::span(&out, 1))), {"make_schedule"});
  ASSERT_TRUE(text.ok()) << text.error().what;
  EXPECT_NE(text->find("= linear"), std::string::npos) << *text;
}

TEST(IrOpt, ErrorsNameThePass) {
  const auto unknown = run(kernel_text(), {"early_movement", "fly"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().what, "pass fly: no such pass (--list names them)");
  EXPECT_FALSE(run(kernel_text(), {"to_program", "early_movement"}).ok());
  EXPECT_FALSE(run("%0 = nonsense", {}).ok());
}

TEST(IrOpt, ListsEveryPassOnce) {
  auto names = ir_opt_passes(host_options());
  std::vector<std::string> sorted;
  for (const PassName& p : names) {
    EXPECT_FALSE(p.why.empty()) << p.name;
    sorted.push_back(p.name);
  }
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
  EXPECT_GT(sorted.size(), 20u);
}

}  // namespace
}  // namespace modeld::tools
