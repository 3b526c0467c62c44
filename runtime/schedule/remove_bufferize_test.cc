#include "runtime/schedule/remove_bufferize.h"

#include <gtest/gtest.h>

#include "runtime/ir/graph.h"
#include "runtime/schedule/expr_util.h"

namespace modeld::schedule {
namespace {

using ir::AxisType;
using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

class RemoveBufferize : public ::testing::Test {
 protected:
  const Node* read(int64_t slot, const Node* at) {
    const Node* b = ir::buffer(g, slot, DType::kF32, 64, ir::AddrSpace::kGlobal, "CPU");
    return index_node(g, b, {at}, nullptr);
  }
  const Node* sum_of_reads(int64_t n) {
    const Node* sum = read(1, i);
    for (int64_t s = 2; s <= n; s++) sum = ir::add(g, sum, read(s, i));
    return sum;
  }
  const Node* reduce(const Node* value, const Node* over) {
    return g.make(Op::kReduce, value->dtype, {value, over}, ir::ReduceArg{Op::kAdd, 0});
  }
  const Node* stage(const Node* value, NodeVec ranges, bool removable = true) {
    NodeVec src{value};
    src.insert(src.end(), ranges.begin(), ranges.end());
    return g.make(Op::kStage, value->dtype, src,
                  ir::StageArg{ir::AddrSpace::kGlobal, "CPU", removable});
  }
  StageVerdict verdict(const Node* value, bool removable = true) {
    return stage_verdict(g, stage(value, {i}, removable), 3);
  }
  // What a kernel that stores INDEX(staged, o) becomes.
  const Node* stored(const Node* staged, NodeVec idx, const Node* valid = nullptr) {
    const Node* out = ir::buffer(g, 99, DType::kF32, 64, ir::AddrSpace::kGlobal, "CPU");
    const Node* store =
        g.make(Op::kStore, DType::kVoid,
               {index_node(g, out, {o}, nullptr), index_node(g, staged, idx, valid)});
    const Node* end = g.make(Op::kEnd, DType::kVoid, {store, o});
    const Node* after = g.make(Op::kAfter, DType::kF32, {out, end});
    const auto result = remove_bufferize(g, ir::sink(g, NodeVec{after}));
    EXPECT_TRUE(result.ok());
    return (*result)->src(0)->src(1)->src(0)->src(1);
  }

  Graph g;
  const Node* i = ir::range(g, 8, 0, AxisType::kWeak);
  const Node* r = ir::range(g, 8, 1, AxisType::kReduce);
  const Node* o = ir::range(g, 8, 2, AxisType::kWeak);
};

TEST_F(RemoveBufferize, ElementwiseOfUpToThreeBuffersIsInlined) {
  EXPECT_EQ(verdict(sum_of_reads(1)), StageVerdict::kInline);
  EXPECT_EQ(verdict(sum_of_reads(3)), StageVerdict::kInline);
}

TEST_F(RemoveBufferize, ElementwiseOfFourBuffersIsKept) {
  EXPECT_EQ(verdict(sum_of_reads(4)), StageVerdict::kKeep);
}

TEST_F(RemoveBufferize, AReduceThatReadsMemoryIsKept) {
  EXPECT_EQ(verdict(reduce(read(1, ir::add(g, i, r)), r)), StageVerdict::kKeep);
  EXPECT_EQ(verdict(ir::add(g, read(2, i), reduce(read(1, r), r))), StageVerdict::kKeep);
}

TEST_F(RemoveBufferize, AReduceOverRangesOnlyIsInlined) {
  const Node* count = ir::where(g, ir::lt(g, r, i), ir::const_int(g, 1), ir::const_int(g, 0));
  EXPECT_EQ(verdict(reduce(count, r)), StageVerdict::kInline);
}

TEST_F(RemoveBufferize, WhatTheUserAskedForIsKept) {
  EXPECT_EQ(verdict(sum_of_reads(1), false), StageVerdict::kKeep);
}

TEST_F(RemoveBufferize, AStateCountsAsItsBuffer) {
  const Node* b = ir::buffer(g, 1, DType::kF32, 64, ir::AddrSpace::kGlobal, "CPU");
  const Node* done = g.make(Op::kStore, DType::kVoid,
                            {index_node(g, b, {ir::const_int(g, 0)}, nullptr), sum_of_reads(9)});
  const Node* after = g.make(Op::kAfter, DType::kF32, {b, done});
  EXPECT_EQ(verdict(index_node(g, after, {i}, nullptr)), StageVerdict::kInline);
}

TEST_F(RemoveBufferize, AStagedConstantNeedsNoBuffer) {
  EXPECT_EQ(stored(stage(ir::const_float(g, 3, DType::kF32), {i}), {o}),
            ir::const_float(g, 3, DType::kF32));
}

TEST_F(RemoveBufferize, InliningPutsTheIndexInPlaceOfTheLoop) {
  const Node* value =
      stored(stage(ir::add(g, read(1, i), read(2, i)), {i}), {ir::add_const(g, o, 1)});
  EXPECT_EQ(value, ir::add(g, read(1, ir::add_const(g, o, 1)), read(2, ir::add_const(g, o, 1))));
}

TEST_F(RemoveBufferize, InliningKeepsTheGateOnEveryRead) {
  const Node* valid = ir::lt(g, o, ir::const_int(g, 3));
  const Node* value = stored(stage(ir::add(g, read(1, i), read(2, i)), {i}), {o}, valid);
  for (const Node* index : value->src()) {
    ASSERT_EQ(index->op, Op::kIndex);
    EXPECT_EQ(index_access(g, index).valid, valid);
  }
}

TEST_F(RemoveBufferize, AnAxisTheValueDoesNotUseIsDropped) {
  const Node* j = ir::range(g, 5, 7, AxisType::kWeak);
  const Node* kept = stored(stage(sum_of_reads(4), {j, i}), {ir::const_int(g, 2), o});
  ASSERT_EQ(kept->op, Op::kIndex);
  ASSERT_EQ(kept->src(0)->op, Op::kStage);
  EXPECT_EQ(kept->src(0)->nsrc, 2U);
  EXPECT_EQ(kept->nsrc, 2U);
}

TEST_F(RemoveBufferize, AnAxisTheUserAskedForStays) {
  const Node* j = ir::range(g, 5, 7, AxisType::kWeak);
  const Node* kept = stored(stage(sum_of_reads(1), {j, i}, false), {ir::const_int(g, 2), o});
  EXPECT_EQ(kept->src(0)->nsrc, 3U);
}

TEST_F(RemoveBufferize, TwoInlinedCopiesOfAReduceDoNotShareALoop) {
  const Node* odd =
      ir::where(g,
                ir::lt(g, ir::alu(g, Op::kFloorMod, {ir::mul(g, r, i), ir::const_int(g, 3)}),
                       ir::const_int(g, 1)),
                ir::const_float(g, 1, DType::kF32), ir::const_float(g, 0, DType::kF32));
  const Node* s = stage(reduce(odd, r), {i});
  const Node* out = ir::buffer(g, 99, DType::kF32, 64, ir::AddrSpace::kGlobal, "CPU");
  const Node* both =
      ir::add(g, index_node(g, s, {o}, nullptr),
              index_node(g, s, {ir::add_const(g, ir::mul_const(g, o, -1), 7)}, nullptr));
  const Node* store = g.make(Op::kStore, DType::kVoid, {index_node(g, out, {o}, nullptr), both});
  const Node* after =
      g.make(Op::kAfter, DType::kF32, {out, g.make(Op::kEnd, DType::kVoid, {store, o})});
  const auto result = remove_bufferize(g, ir::sink(g, NodeVec{after}));
  ASSERT_TRUE(result.ok());
  NodeVec loops;
  for (const Node* n : ir::toposort(*result)) {
    if (n->op == Op::kReduce) loops.push_back(n->src(1));
    EXPECT_NE(n->op, Op::kStage);
  }
  ASSERT_EQ(loops.size(), 2U);
  EXPECT_NE(loops[0], loops[1]);
}

}  // namespace
}  // namespace modeld::schedule
