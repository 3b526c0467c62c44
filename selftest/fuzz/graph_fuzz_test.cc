// The eager engine's own rules, and programs that graph-fuzz once found to go wrong.
#include <gtest/gtest.h>

#include <algorithm>

#include "selftest/fuzz/graph_batch.h"
#include "selftest/fuzz/graph_builder.h"
#include "selftest/fuzz/graph_shrink.h"

namespace modeld::fuzz {
namespace {

using ir::DType;
using ir::Op;

class GraphPrograms : public ::testing::Test {
 protected:
  // "" or what goes wrong, with interpreted kernels.
  std::string outcome(const exec::SessionOptions& options = {}) {
    return run_batch({0}, {b.program}, options, true).cases[0].finding.text;
  }

  Rng rng{1};
  GraphBuilder b{rng};
};

using GraphEngine = GraphPrograms;
using GraphFindings = GraphPrograms;
using GraphShrink = GraphPrograms;

TEST_F(GraphEngine, ViewsFollowAWriteAndValuesKeepWhatTheyWereComputedFrom) {
  const size_t a = b.input({4}, DType::kF32, 0);
  const size_t view = b.move(StepKind::kShrink, a, {1}, {2});
  const size_t value = b.alu(Op::kAdd, {a, b.full(1, DType::kF32)});
  const std::vector<double> before = b.engine.value(value).v;
  b.assign(a, b.full(7, DType::kF32));
  EXPECT_EQ(b.engine.value(view).v, (std::vector<double>{7, 7}));
  EXPECT_EQ(b.engine.value(value).v, before);
}

TEST_F(GraphEngine, ForetellsTwoWritesThatWaitForOneAnother) {
  const size_t x = b.input({4}, DType::kF32, 0);
  const size_t y = b.input({4}, DType::kF32, 0);
  const size_t c = b.alu(Op::kAdd, {x, b.full(9, DType::kF32)});
  b.assign(x, b.alu(Op::kAdd, {x, y}));
  EXPECT_FALSE(b.engine.forecast(step_of(StepKind::kRealize, {x}))->has_cycle);
  b.assign(y, b.alu(Op::kAdd, {y, c}));
  EXPECT_TRUE(b.engine.forecast(step_of(StepKind::kRealize, {x, y}))->has_cycle);
}

TEST_F(GraphEngine, ForetellsAReaderThatNobodyTracked) {
  const size_t a = b.input({4}, DType::kF32, 0);
  const size_t c = b.alu(Op::kAdd, {a, b.full(1, DType::kF32)});
  b.drop(c);
  b.assign(a, b.input({4}, DType::kF32, 0));
  ASSERT_TRUE(b.realize({a}));
  b.track(c);
  EXPECT_TRUE(b.engine.forecast(step_of(StepKind::kRealize, {c}))->reads_stale);
}

TEST_F(GraphEngine, RefusesStepsWhoseValuesWouldRound) {
  const size_t big = b.full(4096, DType::kF32);
  const size_t square = b.alu(Op::kMul, {big, b.full(2048, DType::kF32)});
  EXPECT_NE(square, GraphBuilder::kNone);
  EXPECT_EQ(b.alu(Op::kMul, {square, big}), GraphBuilder::kNone);
}

TEST_F(GraphFindings, AStoreThroughAFlippedViewOfWhatItReadsIsStaged) {
  const size_t a = b.input({3, 4}, DType::kF32, 0);
  const size_t flipped = b.move(StepKind::kFlip, a, {0, 1});
  b.assign(flipped, a);
  b.realize({flipped});
  EXPECT_EQ(outcome(), "");
}

TEST_F(GraphFindings, MemoryThatALiveTensorNamesIsWrittenThoughTheResultDoesNotNeedIt) {
  const size_t a = b.input({8}, DType::kF32, 0);
  const size_t asked = b.contiguous(b.alu(Op::kCmpLt, {a, b.full(1, DType::kF32)}));
  b.realize({b.alu(Op::kCmpNe, {asked, asked})});
  EXPECT_EQ(outcome(), "");
}

TEST_F(GraphFindings, AReduceThatIsSplitAtAnySizeSettles) {
  const size_t a = b.input({2, 16}, DType::kF32, 0);
  b.realize({b.reduce(Op::kMax, a, {1})});
  exec::SessionOptions options;
  options.schedule.split_threshold = 2;
  EXPECT_EQ(outcome(options), "");
}

TEST_F(GraphFindings, AHalfThatIsCappedNeedsNoLibrary) {
  const size_t a = b.input({8}, DType::kF16, 0);
  const size_t one = b.full(1, DType::kF16);
  b.realize({b.alu(Op::kWhere, {b.alu(Op::kCmpLt, {a, one}), a, one})});
  exec::SessionOptions options;
  options.compile.noopt = true;
  EXPECT_EQ(run_batch({0}, {b.program}, options, false).cases[0].finding.text, "");
}

TEST_F(GraphShrink, LeavesTheStepsThatMatter) {
  const size_t a = b.input({2, 2}, DType::kI32, 0);
  const size_t other = b.input({3}, DType::kI32, 0);
  const size_t sum = b.alu(Op::kAdd, {a, a});
  b.realize({sum, other});
  const Program small = shrink(b.program, [](const Program& p) {
    return std::any_of(p.steps.begin(), p.steps.end(),
                       [](const Step& s) { return s.kind == StepKind::kAlu; });
  });
  EXPECT_EQ(small.steps.size(), 2u) << print(small);
}

}  // namespace
}  // namespace modeld::fuzz
