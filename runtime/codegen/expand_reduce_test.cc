// expand_reduce alone: which lanes are folded where. That the numbers are right on every path is
// expand_reduce_run_test's business.
#include "runtime/codegen/expand_reduce.h"

#include <gtest/gtest.h>

#include "selftest/testing/kernel_builder.h"

namespace modeld::codegen {
namespace {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using testing::KernelBuilder;
using N = const Node*;

CodegenOptions options(Heuristic heuristic) {
  CodegenOptions o = cpu_options(*hal::parse_target("cpu:x86-64-v3"));
  o.heuristic = heuristic;
  return o;
}

// A reduce of `kept` times `unrolled` lanes, lane k reading element k of a row.
struct Expanded {
  Graph g;
  KernelBuilder b{g};
  N loop = b.reduce_loop(10);
  NodeVec lanes;
  NodeVec out;

  Expanded(Op op, size_t kept, size_t unrolled, bool has_loop, Heuristic h) {
    N row = b.param(1, 10 * static_cast<int64_t>(kept * unrolled));
    for (size_t k = 0; k < kept * unrolled; ++k)
      lanes.push_back(b.at(row, b.add(b.times(loop, static_cast<int64_t>(kept * unrolled)),
                                      b.i(static_cast<int64_t>(k)))));
    N reduce = b.reduce(op, lanes[0], {loop});
    out = expand_reduce(g, reduce, {lanes, kept, unrolled}, has_loop ? NodeVec{loop} : NodeVec{},
                        options(h));
  }
  N sum(std::initializer_list<size_t> which) {
    N s = nullptr;
    for (const size_t k : which) s = s == nullptr ? lanes[k] : b.add(s, lanes[k]);
    return s;
  }
};

TEST(ExpandReduce, UnrolledLanesAreFoldedInTheirOrderBeforeTheLoop) {
  Expanded e(Op::kAdd, 1, 3, true, Heuristic::kReference);
  ASSERT_EQ(e.out.size(), 1U);
  ASSERT_EQ(e.out[0]->op, Op::kReduce);
  EXPECT_EQ(e.out[0]->src(0), e.sum({0, 1, 2}));
  EXPECT_EQ(e.out[0]->src(1), e.loop);
}

TEST(ExpandReduce, EachKeptLaneHasAnAccumulatorOfItsOwn) {
  Expanded e(Op::kAdd, 2, 2, true, Heuristic::kReference);
  ASSERT_EQ(e.out.size(), 2U);
  N all = e.out[0]->src(0);
  EXPECT_EQ(e.out[1]->src(0), all) << "one loop for both";
  ASSERT_EQ(all->op, Op::kReduce);
  ASSERT_EQ(all->src(0)->op, Op::kStack);
  EXPECT_EQ(all->src(0)->src(0), e.sum({0, 1}));
  EXPECT_EQ(all->src(0)->src(1), e.sum({2, 3}));
  EXPECT_EQ(ir::int_value(e.out[0]->src(1)), 0);
  EXPECT_EQ(ir::int_value(e.out[1]->src(1)), 1);
}

TEST(ExpandReduce, WithoutALoopTheFoldIsTheValue) {
  Expanded e(Op::kAdd, 2, 2, false, Heuristic::kReference);
  EXPECT_EQ(e.out, (NodeVec{e.sum({0, 1}), e.sum({2, 3})}));
}

TEST(ExpandReduce, OneLaneIsTheReduceItWas) {
  Expanded e(Op::kMax, 1, 1, true, Heuristic::kReference);
  ASSERT_EQ(e.out.size(), 1U);
  EXPECT_EQ(e.out[0], e.b.reduce(Op::kMax, e.lanes[0], {e.loop}));
}

// The CPU's rule: few kept lanes keep every unrolled lane apart in the loop and fold by halves
// behind it.
TEST(ExpandReduce, TheCpuFoldsLateWhereAccumulatorsFit) {
  Expanded e(Op::kAdd, 1, 4, true, Heuristic::kCpu);
  ASSERT_EQ(e.out.size(), 1U);
  N top = e.out[0];
  ASSERT_EQ(top->op, Op::kAdd);
  EXPECT_EQ(top->src(0)->op, Op::kAdd);
  EXPECT_EQ(top->src(1)->op, Op::kAdd);
  N all = top->src(0)->src(0)->src(0);
  ASSERT_EQ(all->op, Op::kReduce);
  ASSERT_EQ(all->src(0)->op, Op::kStack);
  EXPECT_EQ(NodeVec(all->src(0)->src().begin(), all->src(0)->src().end()), e.lanes);
  // Lanes 0 and 2 meet, then 1 and 3.
  EXPECT_EQ(ir::int_value(top->src(0)->src(0)->src(1)), 0);
  EXPECT_EQ(ir::int_value(top->src(0)->src(1)->src(1)), 2);
}

TEST(ExpandReduce, TheCpuFoldsEarlyWhereTheyDoNot) {
  for (const auto& [kept, unrolled] : {std::pair<size_t, size_t>{5, 4}, {1, 3}, {4, 17}}) {
    Expanded e(Op::kAdd, kept, unrolled, true, Heuristic::kCpu);
    ASSERT_EQ(e.out.size(), kept);
    N first = kept == 1 ? e.out[0] : e.out[0]->src(0);
    ASSERT_EQ(first->op, Op::kReduce) << kept << " " << unrolled;
    N folded = kept == 1 ? first->src(0) : first->src(0)->src(0);
    EXPECT_EQ(folded->op, Op::kAdd) << kept << " " << unrolled;
  }
}

}  // namespace
}  // namespace modeld::codegen
