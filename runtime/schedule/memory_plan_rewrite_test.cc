// memory_plan_rewrite on LINEARs: which buffers it takes, and what it says about them. The planners
// themselves have planner_test.cc.
#include "runtime/schedule/memory_plan_rewrite.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace modeld::schedule {
namespace {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

class MemoryPlanRewrite : public ::testing::Test {
 protected:
  const Node* buffer(int64_t slot, int64_t floats = 250, const std::string& device = "CPU") {
    return ir::buffer(g, slot, DType::kF32, floats, ir::AddrSpace::kGlobal, device);
  }
  const Node* call(NodeVec args) {
    return with_body(ir::sink(g, NodeVec{}, ir::KernelInfo{}), args);
  }
  const Node* copy(NodeVec args) {
    return with_body(g.make(Op::kCopy, DType::kF32, {ir::param(g, 1, DType::kF32, 4, "CPU")},
                            std::string("CPU")),
                     args);
  }
  const Node* linear(NodeVec calls) { return g.make(Op::kLinear, DType::kVoid, calls); }

  Graph g;

 private:
  const Node* with_body(const Node* body, NodeVec args) {
    NodeVec src{body};
    src.insert(src.end(), args.begin(), args.end());
    return g.make(Op::kCall, DType::kVoid, src);
  }
};

TEST_F(MemoryPlanRewrite, SaysWhichCallsUseABuffer) {
  const Node *a = buffer(1), *b = buffer(2), *c = buffer(3), *d = buffer(4);
  const auto plan =
      memory_plan_rewrite(g, linear({call({b, a}), call({c, b}), call({d, c, b})}), {a, d});
  ASSERT_TRUE(plan.ok());
  const BufferPlace* place = plan->find(b);
  ASSERT_NE(place, nullptr);
  EXPECT_EQ(place->first, 0);
  EXPECT_EQ(place->last, 2);
  EXPECT_EQ(place->free, 3);
  EXPECT_EQ(plan->buffers.size(), 2U);
}

TEST_F(MemoryPlanRewrite, ABufferOfACopyIsHeldForItsLifetimeOnceMore) {
  const Node *p = buffer(1), *t = buffer(2), *u = buffer(3);
  const auto plan = memory_plan_rewrite(g, linear({copy({t, p}), call({u, t}), call({p, u})}), {p});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->find(t)->last, 1);
  EXPECT_EQ(plan->find(t)->free, 4);
  EXPECT_EQ(plan->find(u)->free, 3);
  EXPECT_NE(plan->find(t)->lane, plan->find(u)->lane);
}

TEST_F(MemoryPlanRewrite, LeavesHeldBuffersAndDevicesWithoutSubBuffersAlone) {
  const Node* held = buffer(1);
  for (const char* device : {"DISK:/tmp/x", "TINYFS:1", "CL", "CL:1", "WEBGPU", "CPU,CL"}) {
    const Node* other = buffer(2, 250, device);
    const Node* mine = buffer(3);
    const auto plan =
        memory_plan_rewrite(g, linear({call({mine, held}), copy({other, mine})}), {held});
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->find(held), nullptr);
    EXPECT_EQ(plan->find(other), nullptr) << device;
    EXPECT_NE(plan->find(mine), nullptr) << device;
  }
}

TEST_F(MemoryPlanRewrite, LeavesRegistersAndSharedMemoryAlone) {
  const Node* local = ir::buffer(g, 2, DType::kF32, 64, ir::AddrSpace::kLocal, "CPU");
  const auto plan = memory_plan_rewrite(g, linear({call({local, buffer(1)})}), {buffer(1)});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->find(local), nullptr);
}

TEST_F(MemoryPlanRewrite, SwitchedOffPlacesNothing) {
  ScheduleOptions options;
  options.memory_planner = false;
  const auto plan = memory_plan_rewrite(g, linear({call({buffer(2), buffer(1)})}), {}, options);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->buffers.empty());
  EXPECT_TRUE(plan->lanes.empty());
}

TEST_F(MemoryPlanRewrite, ATupleOfDevicesHasItsOwnArena) {
  const Node *a = buffer(1, 250, "DEV0,DEV1"), *b = buffer(2, 250, "DEV0,DEV1");
  const Node* c = buffer(3, 250, "DEV0");
  const auto plan = memory_plan_rewrite(g, linear({call({b, a}), call({c})}), {});
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->lanes.size(), 2U);
  EXPECT_EQ(plan->lanes[0].device, "DEV0,DEV1");
  EXPECT_EQ(plan->lanes[0].arena_size, 2048);
  EXPECT_EQ(plan->lanes[1].device, "DEV0");
  EXPECT_EQ(plan->find(a)->lane, plan->find(b)->lane);
}

TEST_F(MemoryPlanRewrite, SeesBuffersBehindStacksSelectionsAndViews) {
  const Node *a = buffer(1, 250, "DEV0"), *b = buffer(2, 250, "DEV1"), *c = buffer(3);
  const Node* stack = g.make(Op::kMStack, DType::kF32, {a, b});
  const Node* view =
      g.make(Op::kReshape, DType::kF32, {c, ir::shape_node(g, std::vector<int64_t>{25, 10})});
  const auto plan = memory_plan_rewrite(
      g, linear({call({c}), call({stack}), call({a}), call({b}), call({view})}), {});
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->buffers.size(), 3U);
  EXPECT_EQ(plan->find(a)->first, 1);
  EXPECT_EQ(plan->find(b)->last, 3);
  EXPECT_EQ(plan->find(c)->first, 0);
  EXPECT_EQ(plan->find(c)->last, 4);
}

TEST_F(MemoryPlanRewrite, TlsfIsTheBaselineWhenOfflinePlanningIsOff) {
  NodeVec calls;
  for (int64_t i = 1; i < 5; i++) calls.push_back(call({buffer(i + 1, 25152), buffer(i, 25152)}));
  ScheduleOptions options;
  options.best_fit = false;
  const auto tlsf = memory_plan_rewrite(g, linear(calls), {}, options);
  const auto offline = memory_plan_rewrite(g, linear(calls), {});
  ASSERT_TRUE(tlsf.ok() && offline.ok());
  EXPECT_EQ(tlsf->lanes[0].arena_size, 301824);
  EXPECT_EQ(tlsf->lanes[0].method, PlanMethod::kTlsf);
  EXPECT_EQ(offline->lanes[0].arena_size, 201216);
  EXPECT_EQ(offline->lanes[0].lower_bound, 201216);
}

TEST_F(MemoryPlanRewrite, RefusesWhatNoAddressReaches) {
  const auto plan =
      memory_plan_rewrite(g, linear({call({buffer(2, INT64_MAX / 2), buffer(1)})}), {buffer(1)});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Errc::kOutOfMemory);
}

}  // namespace
}  // namespace modeld::schedule
