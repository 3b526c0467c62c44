#include "runtime/schedule/decide.h"

#include <gtest/gtest.h>

#include "runtime/ir/graph.h"

namespace modeld::schedule {
namespace {

using ir::AxisType;
using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using Kind = Decision::Kind;

// Hand-made index vectors over loops i and j.
class Decide : public ::testing::Test {
 protected:
  const Node* op(Op o) {
    const Node* x = ir::buffer(g, 1, DType::kF32, 16, ir::AddrSpace::kGlobal, "CPU");
    const Node* m = g.make(Op::kReshape, DType::kF32, {x, ir::shape_node(g, ir::Ints{4, 4})});
    switch (o) {
      case Op::kAdd:
        return ir::add(g, m, m);
      case Op::kReduce:
        return g.make(o, DType::kF32, {m}, ir::ReduceArg{Op::kAdd, 1});
      case Op::kPermute:
        return g.make(o, DType::kF32, {m}, ir::Ints{1, 0});
      case Op::kContiguous:
        return g.make(o, DType::kF32, {m});
      case Op::kBuffer:
        return x;
      case Op::kConst:
        return ir::const_float(g, 1, DType::kF32);
      case Op::kAfter: {
        const Node* store = g.make(Op::kStore, DType::kVoid, {x, x});
        return g.make(o, DType::kF32, {x, store});
      }
      default:
        return m;
    }
  }
  Decision run(Op o, std::vector<Access> consumers, bool ending = false, bool marked = false) {
    DecideInput in;
    in.node = op(o);
    in.consumers = std::move(consumers);
    in.has_ending = ending;
    in.marked = marked;
    return decide(g, in);
  }

  Graph g;
  const Node* i = ir::range(g, 4, 0, AxisType::kWeak);
  const Node* j = ir::range(g, 4, 1, AxisType::kWeak);
  const Node* m1 = ir::lt(g, i, ir::const_int(g, 2));
  const Node* m2 = ir::lt(g, j, ir::const_int(g, 3));
};

TEST_F(Decide, OneConsumerIsInherited) {
  const Decision d = run(Op::kAdd, {{{i, j}, nullptr}});
  EXPECT_EQ(d.kind, Kind::kInherit);
  EXPECT_EQ(d.out.idx, (NodeVec{i, j}));
  EXPECT_EQ(d.out.valid, nullptr);
}

TEST_F(Decide, EqualIndicesMergeTheirMasks) {
  const Decision d = run(Op::kAdd, {{{i, j}, m1}, {{i, j}, m2}});
  EXPECT_EQ(d.kind, Kind::kInherit);
  EXPECT_EQ(d.out.valid, ir::alu(g, Op::kOr, {m1, m2}));
}

TEST_F(Decide, AnUnmaskedConsumerNeedsEveryElement) {
  const Decision d = run(Op::kAdd, {{{i, j}, m1}, {{i, j}, nullptr}});
  EXPECT_EQ(d.kind, Kind::kInherit);
  EXPECT_EQ(d.out.valid, nullptr);
}

TEST_F(Decide, MasksOverLoopsTheIndicesDoNotUseAreNotMerged) {
  // Each mask's loop is open in its own consumer only.
  const Node* zero = ir::const_int(g, 0);
  const Decision d = run(Op::kAdd, {{{zero, j}, ir::land(g, m1, m2)}, {{zero, j}, m2}});
  EXPECT_EQ(d.kind, Kind::kInherit);
  EXPECT_EQ(d.out.valid, m2);
}

TEST_F(Decide, SwappedOrShiftedIndicesRealise) {
  EXPECT_EQ(run(Op::kAdd, {{{i, j}, nullptr}, {{j, i}, nullptr}}).kind, Kind::kRealize);
  const Node* next = ir::add_const(g, j, 1);
  EXPECT_EQ(run(Op::kReshape, {{{i, j}, nullptr}, {{i, next}, nullptr}}).kind, Kind::kRealize);
}

TEST_F(Decide, WorkThatALaterLoopWouldRepeatRealises) {
  for (Op o : {Op::kAdd, Op::kReduce}) {
    const Decision d = run(o, {{{ir::const_int(g, 0), j}, nullptr}}, true);
    EXPECT_EQ(d.kind, Kind::kRealize);
    EXPECT_TRUE(d.clears_ending);
  }
}

TEST_F(Decide, MovementPassesTheListOfEndingLoopsDown) {
  for (Op o : {Op::kReshape, Op::kPermute}) {
    const Decision d = run(o, {{{i, j}, nullptr}}, true);
    EXPECT_EQ(d.kind, Kind::kInherit);
    EXPECT_FALSE(d.clears_ending);
  }
}

TEST_F(Decide, MarkedValuesRealiseWhateverTheirConsumersSay) {
  EXPECT_EQ(run(Op::kContiguous, {{{i, j}, nullptr}}, false, true).kind, Kind::kRealize);
  const Decision d = run(Op::kAdd, {}, true, true);
  EXPECT_EQ(d.kind, Kind::kRealize);
  EXPECT_TRUE(d.clears_ending);
}

TEST_F(Decide, StorageStatesAndConstantsAreNeverStaged) {
  for (Op o : {Op::kBuffer, Op::kAfter, Op::kConst}) {
    EXPECT_EQ(run(o, {{{i, j}, nullptr}, {{j, i}, nullptr}}, true).kind, Kind::kSkip);
  }
}

TEST_F(Decide, NobodyAsksMeansNothingToDo) {
  EXPECT_EQ(run(Op::kAdd, {}, true).kind, Kind::kSkip);
}

}  // namespace
}  // namespace modeld::schedule
