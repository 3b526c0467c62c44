// The same graph gives the same LINEAR in every process: stored tensor graphs and the LINEARs they
// gave when they were stored. After a change that is meant to give other kernels, run
// `build/bin/ir_opt selftest/schedule/golden/NAME.graph -p make_schedule` and read the difference.
#include <gtest/gtest.h>

#include "hal/base/fs.h"

#include "runtime/ir/print.h"
#include "runtime/schedule/schedule.h"

namespace modeld::schedule {
namespace {

std::string stored(const std::string& name) {
  const auto text = read_text(join_path(MODELD_SOURCE_ROOT, "selftest/schedule/golden/" + name));
  EXPECT_TRUE(text.ok()) << text.error().what;
  return text.ok() ? *text : "";
}

Result<std::string> linear_of(const std::string& graph) {
  ir::Graph g;
  ASSIGN_OR_RETURN(const ir::Node* root, ir::parse(g, graph));
  ScheduleOptions options;
  options.cache = false;
  ASSIGN_OR_RETURN(const Schedule s, make_schedule(g, root->src(), options));
  return ir::print(s.linear);
}

class StoredGraph : public ::testing::TestWithParam<const char*> {};

TEST_P(StoredGraph, GivesTheStoredLinear) {
  const std::string name = GetParam();
  const auto linear = linear_of(stored(name + ".graph"));
  ASSERT_TRUE(linear.ok()) << linear.error().what;
  EXPECT_EQ(*linear, stored(name + ".linear"));
}

TEST_P(StoredGraph, GivesTheSameBytesEveryTime) {
  const std::string graph = stored(std::string(GetParam()) + ".graph");
  const auto first = linear_of(graph), second = linear_of(graph);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
}

INSTANTIATE_TEST_SUITE_P(Schedule, StoredGraph, ::testing::Values("block", "assigns"));

}  // namespace
}  // namespace modeld::schedule
