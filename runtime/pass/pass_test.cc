#include "runtime/pass/pass.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "hal/base/env.h"

#include "runtime/ir/graph.h"

namespace modeld::pass {
namespace {

using ir::Graph;
using ir::Node;

Pass add_one(const char* name) {
  return {name, "test",
          [](Graph& g, const Node* n) -> Result<const Node*> { return ir::add_const(g, n, 1); }};
}

std::string read_all(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(Pass, RunsInTableOrderAndTimesEachPass) {
  Graph g;
  std::string order;
  const auto note = [&order](char c) {
    return [&order, c](Graph&, const Node* n) -> Result<const Node*> {
      order.push_back(c);
      return n;
    };
  };
  const Pass table[] = {{"first", "", note('a')}, {"second", "", note('b')}, add_one("third")};
  std::vector<PassTiming> timings;
  RunOptions options;
  options.timings = &timings;
  const auto result = run_passes(g, ir::const_int(g, 1), table, options);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(order, "ab");
  ASSERT_EQ(timings.size(), 3U);
  EXPECT_EQ(timings[1].name, "second");
  EXPECT_FALSE(timings[1].changed);
  EXPECT_TRUE(timings[2].changed);
}

TEST(Pass, ErrorNamesThePassAndStopsTheRun) {
  Graph g;
  bool later = false;
  const Pass table[] = {
      {"broken", "",
       [](Graph&, const Node*) -> Result<const Node*> { return fail(Errc::kInvalid, "no good"); }},
      {"later", "", [&later](Graph&, const Node* n) -> Result<const Node*> {
         later = true;
         return n;
       }}};
  RunOptions options;
  options.label = "conv_7";
  const auto result = run_passes(g, ir::const_int(g, 1), table, options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Errc::kInvalid);
  EXPECT_EQ(result.error().what, "conv_7: pass broken: no good");
  EXPECT_FALSE(later);
}

TEST(Pass, LatchedGraphErrorEndsTheRun) {
  Graph g;
  const Pass table[] = {{"latch", "", [](Graph& gr, const Node* n) -> Result<const Node*> {
                           gr.fail(Errc::kMismatch, "bad shape");
                           return n;
                         }}};
  const auto result = run_passes(g, ir::const_int(g, 1), table);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Errc::kMismatch);
}

TEST(Pass, SpecAfterAPassIsVerifiedUnlessSwitchedOff) {
  Graph g;
  Pass p = add_one("grow");
  p.spec_after = [](Graph&, const Node* n) -> Status {
    return n->op == ir::Op::kConst ? Status() : fail(Errc::kInternal, "not a const");
  };
  const Pass table[] = {p};
  const Node* x = ir::variable(g, "x", 0, 9);
  const auto result = run_passes(g, x, table);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().what, "pass grow: spec after: not a const");
  RunOptions off;
  off.verify = false;
  EXPECT_TRUE(run_passes(g, x, table, off).ok());
}

TEST(Pass, DumpWritesOneNumberedTextPerPass) {
  Graph g;
  const std::string dir = strf("%s/pass_dump_%d", temp_root().c_str(), static_cast<int>(getpid()));
  const Pass table[] = {add_one("one"), add_one("two")};
  RunOptions options;
  options.dump_dir = dir;
  options.label = "k";
  const Node* x = ir::variable(g, "x", 0, 9);
  ASSERT_TRUE(run_passes(g, x, table, options).ok());
  const std::string first = read_all(strf("%s/k-00-one.txt", dir.c_str()));
  const std::string second = read_all(strf("%s/k-01-two.txt", dir.c_str()));
  EXPECT_NE(first.find("add"), std::string::npos);
  EXPECT_NE(first, second);
  std::filesystem::remove_all(dir);
}

TEST(Pass, DumpIntoAnImpossibleDirectoryIsAnError) {
  Graph g;
  const Pass table[] = {add_one("one")};
  RunOptions options;
  options.dump_dir = "/proc/nowhere";
  const auto result = run_passes(g, ir::const_int(g, 1), table, options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Errc::kIo);
}

TEST(Pass, DumpNamesAreNumberedByPosition) {
  EXPECT_EQ(dump_name("", 3, "fuse"), "03-fuse.txt");
  EXPECT_EQ(dump_name("conv_7", 12, "fuse"), "conv_7-12-fuse.txt");
}

}  // namespace
}  // namespace modeld::pass
