#include "runtime/schedule/index_transform.h"

#include <gtest/gtest.h>

#include "runtime/ir/derived.h"
#include "runtime/ir/graph.h"
#include "runtime/ir/symbolic.h"

namespace modeld::schedule {
namespace {

using ir::AxisType;
using ir::DType;
using ir::Graph;
using ir::Ints;
using ir::Node;
using ir::NodeVec;
using ir::Op;

class IndexTransformTest : public ::testing::Test {
 protected:
  const Node* value(Ints dims) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    const Node* b = ir::buffer(g, 1, DType::kF32, n, ir::AddrSpace::kGlobal, "CPU");
    return g.make(Op::kReshape, DType::kF32, {b, ir::shape_node(g, dims)});
  }
  const Node* loop(int64_t bound, int64_t id) { return ir::range(g, bound, id, AxisType::kWeak); }
  const Node* num(int64_t v) { return ir::const_int(g, v); }

  Graph g;
  IndexTransform transform{g};
};

TEST_F(IndexTransformTest, ReshapeOfWholeAxesNeedsNoDivision) {
  const Node *a = loop(2, 0), *b = loop(3, 1), *c = loop(5, 2);
  const Ints in{2, 15}, out{2, 3, 5};
  const NodeVec idx = transform.reshape(in, out, {a, b, c});
  EXPECT_EQ(idx[0], a);
  EXPECT_EQ(idx[1], ir::add(g, ir::mul_const(g, b, 5), c));
}

TEST_F(IndexTransformTest, SplittingAMergedAxisGivesBackTheLoops) {
  const Node *a = loop(3, 0), *b = loop(5, 1);
  const Ints in{3, 5}, flat{15};
  const NodeVec idx = transform.reshape(in, flat, {ir::add(g, ir::mul_const(g, a, 5), b)});
  EXPECT_EQ(idx, (NodeVec{a, b}));
}

TEST_F(IndexTransformTest, SizeOneAxesAreZeroWhereverTheyStand) {
  const Node *a = loop(4, 0), *b = loop(6, 1);
  const Ints in{4, 1, 6, 1}, out{1, 4, 6};
  EXPECT_EQ(transform.reshape(in, out, {num(0), a, b}), (NodeVec{a, num(0), b, num(0)}));
}

TEST_F(IndexTransformTest, EqualReshapesUnderOtherLoopsHitTheCache) {
  const Ints in{6, 4}, out{8, 3};
  const NodeVec first = transform.reshape(in, out, {loop(8, 0), loop(3, 1)});
  EXPECT_EQ(transform.cache_misses(), 1);
  const NodeVec second = transform.reshape(in, out, {loop(8, 10), loop(3, 11)});
  EXPECT_EQ(transform.cache_misses(), 1);
  EXPECT_EQ(transform.cache_hits(), 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(ir::ranges(g, second[0]).front()->as<ir::RangeArg>().id, 10);
}

TEST_F(IndexTransformTest, PermuteReordersAndFlipMirrors) {
  const Node *a = loop(3, 0), *b = loop(2, 1);
  const Node* p = g.make(Op::kPermute, DType::kF32, {value({2, 3})}, Ints{1, 0});
  EXPECT_EQ(transform.apply(p, {{a, b}, nullptr}).idx, (NodeVec{b, a}));
  const Node* f = g.make(Op::kFlip, DType::kF32, {value({3, 2})}, Ints{1, 0});
  const NodeVec idx = transform.apply(f, {{a, b}, nullptr}).idx;
  EXPECT_EQ(ir::simplify(g, ir::add(g, idx[0], a)), num(2));
  EXPECT_EQ(idx[1], b);
}

TEST_F(IndexTransformTest, ExpandDropsTheAddedAxes) {
  const Node *a = loop(7, 0), *b = loop(3, 1);
  const Node* e = g.make(Op::kExpand, DType::kF32, {value({3}), ir::shape_node(g, Ints{7})});
  EXPECT_EQ(transform.apply(e, {{a, b}, nullptr}).idx, NodeVec{b});
}

TEST_F(IndexTransformTest, ShrinkAddsTheStart) {
  const Node* a = loop(4, 0);
  const Node* s = g.make(Op::kShrink, DType::kF32,
                         {value({10}), ir::shape_node(g, Ints{3}), ir::shape_node(g, Ints{4})});
  EXPECT_EQ(transform.apply(s, {{a}, nullptr}).idx[0], ir::add_const(g, a, 3));
}

TEST_F(IndexTransformTest, PadGatesOnlyWhereTheSourceEnds) {
  const Node* a = loop(6, 0);
  const auto pad = [&](int64_t offset, int64_t total) {
    const Node* p =
        g.make(Op::kPad, DType::kF32,
               {value({4}), ir::shape_node(g, Ints{offset}), ir::shape_node(g, Ints{total})});
    return transform.apply(p, {{total == 6 ? a : loop(total, 9)}, nullptr});
  };
  const Access both = pad(1, 6);
  EXPECT_EQ(both.idx[0], ir::add_const(g, a, -1));
  EXPECT_EQ(ir::split_and(both.valid).size(), 2U);
  EXPECT_EQ(ir::split_and(pad(0, 5).valid).size(), 1U);
  EXPECT_EQ(pad(0, 4).valid, nullptr);
}

TEST_F(IndexTransformTest, GatesSplitAndJoin) {
  const Node* a = loop(6, 0);
  const Node *c = ir::lt(g, a, num(3)), *d = ir::lt(g, num(1), a);
  const auto [idx, valid] = split_gate(g, gate(g, gate(g, a, c), d));
  EXPECT_EQ(idx, a);
  EXPECT_EQ(valid, ir::land(g, d, c));
  EXPECT_EQ(gate(g, a, nullptr), a);
  EXPECT_TRUE(ir::is_invalid(gate(g, a, ir::const_bool(g, false))));
}

}  // namespace
}  // namespace modeld::schedule
