#include "runtime/schedule/transform_to_call.h"

#include <gtest/gtest.h>

#include "runtime/ir/derived.h"
#include "runtime/ir/graph.h"
#include "runtime/schedule/create_linear_with_vars.h"
#include "runtime/schedule/lower_sink_to_linear.h"

namespace modeld::schedule {
namespace {

using ir::DType;
using ir::Graph;
using ir::Ints;
using ir::Node;
using ir::NodeVec;
using ir::Op;

class TransformToCall : public ::testing::Test {
 protected:
  const Node* buffer(int64_t slot, int64_t n, const std::string& device = "CPU") {
    return ir::buffer(g, slot, DType::kF32, n, ir::AddrSpace::kGlobal, device);
  }
  const Node* reshape(const Node* x, Ints d) {
    return g.make(Op::kReshape, x->dtype, {x, ir::shape_node(g, d)});
  }
  const Node* shrink(const Node* x, Ints at, Ints size) {
    return g.make(Op::kShrink, x->dtype, {x, ir::shape_node(g, at), ir::shape_node(g, size)});
  }
  const Node* contiguous(const Node* x) { return g.make(Op::kContiguous, x->dtype, {x}); }
  const Node* one_more(const Node* x) { return ir::add(g, x, ir::const_float(g, 1, DType::kF32)); }
  CallAndMap call(NodeVec roots) {
    auto r = transform_to_call(g, ir::sink(g, roots));
    EXPECT_TRUE(r.ok()) << r.error().what;
    return r.ok() ? *r : CallAndMap{};
  }

  Graph g;
};

TEST_F(TransformToCall, ArgumentsStandInOrderOfFirstVisit) {
  const Node *a = buffer(11, 4), *b = buffer(12, 4);
  const Node* y = ir::add(g, b, ir::mul(g, a, b));
  const CallAndMap r = call({y});
  ASSERT_EQ(r.call->nsrc, 4U);
  EXPECT_EQ(r.call->src(1), ir::base(r.map.at(y)));
  EXPECT_EQ(r.call->src(2), b);
  EXPECT_EQ(r.call->src(3), a);
}

TEST_F(TransformToCall, BodyNamesNoBufferAndStoresIntoParamZero) {
  const CallAndMap r = call({one_more(buffer(11, 4))});
  for (const Node* n : ir::toposort(r.call->src(0))) EXPECT_NE(n->op, Op::kBuffer);
  const Node* after = r.call->src(0)->src(0);
  ASSERT_EQ(after->op, Op::kAfter);
  EXPECT_EQ(after->src(0), ir::param(g, 0, DType::kF32, 4, "CPU"));
}

TEST_F(TransformToCall, EqualWorkOnOtherBuffersHasAnEqualBody) {
  EXPECT_EQ(call({one_more(buffer(11, 4))}).call->src(0),
            call({one_more(buffer(12, 4))}).call->src(0));
  EXPECT_NE(call({one_more(buffer(11, 4))}).call->src(0),
            call({one_more(buffer(12, 4, "DEV1"))}).call->src(0));
}

TEST_F(TransformToCall, BodyDoesNotDependOnBoundValues) {
  const Node* i = ir::variable(g, "i", 0, 10);
  const auto body = [&](int64_t v) {
    const auto bound = bind(g, i, v);
    EXPECT_TRUE(bound.ok());
    return call({ir::add(g, buffer(11, 4), ir::cast(g, *bound, DType::kF32))}).call;
  };
  const Node* five = body(5);
  const Node* ten = body(10);
  EXPECT_EQ(five->src(0), ten->src(0));
  EXPECT_NE(five->src(3), ten->src(3));
  EXPECT_EQ(bound_value(five->src(3)), 5);
}

TEST_F(TransformToCall, StorageAndItsReshapesNeedNothing) {
  const CallAndMap r =
      call({buffer(11, 4), reshape(buffer(11, 4), {2, 2}), ir::const_float(g, 1, DType::kF32)});
  EXPECT_EQ(r.call->src(0)->nsrc, 0U);
  EXPECT_TRUE(r.map.empty());
}

TEST_F(TransformToCall, ContiguousRunIsAViewWithoutAKernel) {
  const Node* view = shrink(reshape(buffer(11, 20), {4, 5}), {1, 0}, {2, 5});
  const CallAndMap r = call({contiguous(view)});
  EXPECT_EQ(r.call->src(0)->nsrc, 0U);
  EXPECT_EQ(r.map.at(contiguous(view)), view);
}

TEST_F(TransformToCall, StridedPartIsCopied) {
  const Node* part = shrink(reshape(buffer(11, 20), {4, 5}), {0, 1}, {4, 2});
  EXPECT_EQ(call({contiguous(part)}).call->src(0)->nsrc, 1U);
}

TEST_F(TransformToCall, DevicesWithoutSubBuffersGetACopy) {
  const Node* view = shrink(buffer(11, 20, "CL"), {4}, {8});
  EXPECT_EQ(call({contiguous(view)}).call->src(0)->nsrc, 1U);
}

TEST_F(TransformToCall, ContiguousOfAStateIsTheState) {
  const Node* c = contiguous(one_more(buffer(11, 4)));
  const CallAndMap r = call({contiguous(reshape(c, {2, 2}))});
  EXPECT_EQ(r.call->src(0)->nsrc, 1U);
  EXPECT_EQ(r.map.size(), 2U);
}

TEST_F(TransformToCall, SizeZeroMakesNoStore) {
  const Node* empty = shrink(buffer(11, 8), {2}, {0});
  EXPECT_EQ(call({one_more(empty), contiguous(empty)}).call->src(0)->nsrc, 0U);
}

TEST_F(TransformToCall, DiskContiguousIsLeftAlone) {
  const CallAndMap r = call({contiguous(one_more(buffer(11, 8, "DISK:x")))});
  EXPECT_TRUE(r.map.empty());
}

TEST_F(TransformToCall, MapValuesAreNeverKeys) {
  const Node* x = reshape(buffer(11, 4), {2, 2});
  const Node* c = contiguous(one_more(x));
  const Node* state =
      g.make(Op::kAfter, DType::kF32, {x, g.make(Op::kStore, DType::kVoid, {x, c})});
  const CallAndMap r = call({one_more(state), c, state});
  EXPECT_GE(r.map.size(), 3U);
  for (const auto& [from, to] : r.map) EXPECT_FALSE(r.map.contains(to));
  EXPECT_EQ(r.map.at(state), x);
}

TEST_F(TransformToCall, AssignIntoAnUnrealisedValueIsRefused) {
  const Node* value = one_more(buffer(11, 4));
  const Node* lost =
      g.make(Op::kAfter, DType::kF32,
             {value, g.make(Op::kStore, DType::kVoid, {shrink(value, {0}, {2}), buffer(12, 2)})});
  const auto r = transform_to_call(g, ir::sink(g, NodeVec{lost}));
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Errc::kInvalid);
}

TEST_F(TransformToCall, WantedValueInsideAnotherIsReadFromItsBuffer) {
  const Node* x = one_more(buffer(11, 4));
  const CallAndMap r = call({x, ir::mul(g, x, x)});
  ASSERT_EQ(r.call->src(0)->nsrc, 2U);
  const Node* second = r.call->src(0)->src(1)->src(1)->src(1);
  EXPECT_EQ(ir::base(second->src(0)), r.call->src(0)->src(0));
}

TEST_F(TransformToCall, LiveTensorsThatShareNodesSeeTheStorage) {
  const Node* t1 = one_more(buffer(11, 4));
  const Node* t2 = ir::mul(g, t1, buffer(12, 4));
  const Node* other = ir::mul(g, buffer(12, 4), buffer(12, 4));
  const CallAndMap r = call({t1});
  const NodeVec live = apply_map_to_tensors(g, {t1, t2, other}, r.map);
  EXPECT_EQ(live[0], r.map.at(t1));
  EXPECT_EQ(live[1], ir::mul(g, r.map.at(t1), buffer(12, 4)));
  EXPECT_EQ(live[2], other);
}

// ---- lower_sink_to_linear, schedule_cache ----

class ScheduleCache : public TransformToCall {
 protected:
  void SetUp() override { schedule_cache_clear(); }
  const Node* lower(const ScheduleOptions& o = {}) {
    const auto r = lower_sink_to_linear(g, call({one_more(buffer(11, 4))}).call->src(0), o);
    EXPECT_TRUE(r.ok()) << r.error().what;
    return *r;
  }
};

TEST_F(ScheduleCache, SecondEqualBodyHits) {
  const Node* first = lower();
  const Node* second = lower();
  EXPECT_EQ(first, second);
  EXPECT_EQ(schedule_cache_stats().hits, 1);
  EXPECT_EQ(schedule_cache_stats().misses, 1);
  EXPECT_EQ(schedule_cache_stats().entries, 1);
}

TEST_F(ScheduleCache, OutlivesTheGraphThatFilledIt) {
  std::string text;
  for (int pass = 0; pass < 2; pass++) {
    Graph own;
    const Node* x = ir::buffer(own, 50 + pass, DType::kF32, 4, ir::AddrSpace::kGlobal, "CPU");
    const Node* y = ir::mul(own, x, x);
    const auto c = transform_to_call(own, ir::sink(own, NodeVec{y}));
    ASSERT_TRUE(c.ok());
    ASSERT_TRUE(lower_sink_to_linear(own, c->call->src(0)).ok());
  }
  EXPECT_EQ(schedule_cache_stats().hits, 1);
}

TEST_F(ScheduleCache, SwitchedOffItIsNeitherReadNorWritten) {
  ScheduleOptions off;
  off.cache = false;
  lower(off);
  EXPECT_EQ(schedule_cache_stats().entries, 0);
  lower();
  lower(off);
  EXPECT_EQ(schedule_cache_stats().hits, 0);
  EXPECT_EQ(schedule_cache_stats().misses, 1);
}

TEST_F(ScheduleCache, EveryOptionThatChangesALinearMisses) {
  lower();
  std::vector<ScheduleOptions> changed(7);
  changed[0].max_kernel_buffers = 4;
  changed[1].inline_max_buffers = 1;
  changed[2].split_reduceop = false;
  changed[3].split_threshold = 5;
  changed[4].split_size_log2 = 20;
  changed[5].device = "DEV1";
  changed[6].stage_padded_reduce = false;
  for (const ScheduleOptions& o : changed) lower(o);
  EXPECT_EQ(schedule_cache_stats().hits, 0);
  ScheduleOptions same;  // what only concerns memory does not change a LINEAR
  same.memory_planner = false;
  same.best_fit = false;
  lower(same);
  EXPECT_EQ(schedule_cache_stats().hits, 1);
}

TEST_F(ScheduleCache, AFinishedKernelPassesThrough) {
  const Node* kernel = ir::sink(g, NodeVec{}, ir::KernelInfo{});
  EXPECT_EQ(*lower_sink_to_linear(g, kernel), kernel);
}

TEST_F(ScheduleCache, AValueFunctionIsNotScheduledAlone) {
  const Node* f =
      g.make(Op::kFunction, DType::kVoid, {g.make(Op::kTuple, DType::kVoid, {buffer(11, 4)})});
  EXPECT_FALSE(lower_sink_to_linear(g, f).ok());
  EXPECT_FALSE(lower_sink_to_linear(g, ir::sink(g, NodeVec{f})).ok());
}

}  // namespace
}  // namespace modeld::schedule
