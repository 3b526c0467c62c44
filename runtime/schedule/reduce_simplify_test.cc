#include "runtime/schedule/reduce_simplify.h"

#include <gtest/gtest.h>

#include "runtime/ir/derived.h"
#include "runtime/ir/graph.h"
#include "runtime/ir/rewrite.h"
#include "runtime/ir/symbolic.h"

#include "selftest/testing/kernel_interp.h"

namespace modeld::schedule {
namespace {

using ir::AxisType;
using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

class ReduceSimplify : public ::testing::Test {
 protected:
  const Node* num(int64_t v) { return ir::const_int(g, v); }
  const Node* f(double v) { return ir::const_float(g, v, DType::kF32); }
  const Node* sum(const Node* v, Op op = Op::kAdd) {
    return g.make(Op::kReduce, v->dtype, {v, r}, ir::ReduceArg{op, 0});
  }
  const Node* not_less(const Node* a, const Node* b) { return ir::logical_not(g, ir::lt(g, a, b)); }
  const Node* mask(const Node* cond, const Node* v) {
    return ir::where(g, cond, v, ir::const_int(g, 0, v->dtype));
  }
  // The values over i of out[i] = n.
  std::vector<double> values(const Node* n) {
    const Node* p = ir::param(g, 0, n->dtype, 8);
    const Node* place = g.make(Op::kIndex, n->dtype, {p, i});
    const Node* store = g.make(Op::kStore, DType::kVoid, {place, n});
    auto out = testing::KernelStorage::of(n->dtype, 8);
    testing::KernelStorage in = testing::KernelStorage::of(DType::kF32, 16);
    for (size_t k = 0; k < 16; k++) in.f[k] = static_cast<double>(k * k) + 0.5;
    testing::KernelStorage* args[] = {&out, &in};
    const Status s = testing::run_kernel(
        g, ir::sink(g, NodeVec{g.make(Op::kEnd, DType::kVoid, {store, i})}), args);
    EXPECT_TRUE(s.ok()) << s.error().what;
    return out.doubles();
  }
  // Rewritten until nothing changes; the loop must be gone and the values equal.
  const Node* collapsed(const Node* n) {
    ir::RuleSet rules;
    rules.on({Op::kReduce}, "reduce",
             [](Graph& gr, const Node* x) { return reduce_simplify(gr, x); });
    rules.append(ir::symbolic_rules());
    const Node* result = ir::rewrite(g, n, rules);
    for (const Node* s : ir::toposort(result)) EXPECT_NE(s->op, Op::kReduce);
    EXPECT_EQ(values(n), values(result));
    return result;
  }

  Graph g;
  const Node* r = ir::range(g, 10, 1, AxisType::kReduce);
  const Node* i = ir::range(g, 8, 0, AxisType::kWeak);
  const Node* loaded = g.make(Op::kIndex, DType::kF32, {ir::param(g, 1, DType::kF32, 16), r});
};

TEST_F(ReduceSimplify, UnusedLoopMultipliesPowersOrVanishes) {
  EXPECT_EQ(reduce_simplify(g, sum(f(2))), ir::mul(g, f(2), f(10)));
  EXPECT_EQ(reduce_simplify(g, sum(f(2), Op::kMax)), f(2));
  EXPECT_EQ(ir::simplify(g, reduce_simplify(g, sum(f(2), Op::kMul))), f(1024));
}

TEST_F(ReduceSimplify, ArangeStyleSumsCount) {
  collapsed(sum(mask(ir::lt(g, r, ir::add_const(g, i, 1)), f(1))));
  collapsed(sum(mask(not_less(r, i), f(3))));
  collapsed(sum(
      mask(ir::land(g, not_less(r, num(2)), ir::lt(g, r, i)), ir::const_int(g, 2, DType::kI32))));
  collapsed(sum(mask(ir::lt(g, ir::add(g, r, i), num(9)), f(1))));
  collapsed(sum(mask(ir::lt(g, ir::mul_const(g, r, -1), ir::add_const(g, i, -6)), f(1))));
}

TEST_F(ReduceSimplify, LimitsOutsideTheLoopAreClamped) {
  collapsed(sum(mask(ir::lt(g, r, ir::add_const(g, ir::mul_const(g, i, 5), -7)), f(1))));
  collapsed(sum(mask(not_less(r, ir::add_const(g, ir::mul_const(g, i, 5), -7)), f(1))));
}

TEST_F(ReduceSimplify, OneHotSumsPick) {
  collapsed(sum(mask(ir::alu(g, Op::kCmpEq, {r, i}), loaded)));
  collapsed(sum(mask(
      ir::logical_not(g, ir::alu(g, Op::kCmpNe, {r, ir::add_const(g, ir::mul_const(g, i, 2), -3)})),
      loaded)));
  const Node* one_hot = ir::cast(g, ir::alu(g, Op::kCmpEq, {r, i}), DType::kF32);
  collapsed(sum(ir::mul(g, one_hot, loaded)));
}

TEST_F(ReduceSimplify, PickedElementIsReadOnlyInsideTheLoop) {
  // 3 * i leaves 0..9 from i = 4 on: those reads must be gated off.
  collapsed(sum(mask(ir::alu(g, Op::kCmpEq, {r, ir::mul_const(g, i, 3)}), loaded)));
}

TEST_F(ReduceSimplify, ASumSplitsIfOnePartLosesItsLoop) {
  const Node* part = mask(ir::lt(g, r, i), f(1));
  const Node* split = reduce_simplify(g, sum(ir::add(g, loaded, part)));
  ASSERT_NE(split, nullptr);
  EXPECT_EQ(split->op, Op::kAdd);
  EXPECT_EQ(values(split), values(sum(ir::add(g, loaded, part))));
}

TEST_F(ReduceSimplify, OrdinarySumsAreLeftAlone) {
  EXPECT_EQ(reduce_simplify(g, sum(loaded)), nullptr);
  EXPECT_EQ(reduce_simplify(g, sum(ir::add(g, loaded, ir::mul(g, loaded, loaded)))), nullptr);
  EXPECT_EQ(reduce_simplify(g, sum(mask(ir::lt(g, r, i), loaded))), nullptr);
  EXPECT_EQ(reduce_simplify(g, sum(mask(ir::lt(g, r, i), loaded), Op::kMax)), nullptr);
}

TEST_F(ReduceSimplify, AFloatFactorThatMayBeInfiniteIsNotMovedOutOfAMask) {
  const Node* column = g.make(Op::kIndex, DType::kF32, {ir::param(g, 1, DType::kF32, 16), i});
  const Node* window = ir::cast(g, ir::lt(g, r, i), DType::kF32);
  EXPECT_EQ(reduce_simplify(g, sum(ir::mul(g, window, column))), nullptr);
}

}  // namespace
}  // namespace modeld::schedule
