#include "runtime/schedule/create_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "runtime/ir/graph.h"

namespace modeld::schedule {
namespace {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using ::testing::HasSubstr;
using ::testing::Not;

// States and kernels by hand: a kernel is CALL(SINK of its own name, states it touches).
class Schedule : public ::testing::Test {
 protected:
  const Node* buffer(int64_t slot) {
    return ir::buffer(g, slot, DType::kF32, 4, ir::AddrSpace::kGlobal, "CPU");
  }
  const Node* kernel(const std::string& name, NodeVec states) {
    ir::KernelInfo info;
    info.name = name;
    NodeVec src{ir::sink(g, NodeVec{}, info)};
    src.insert(src.end(), states.begin(), states.end());
    const Node* k = g.make(Op::kCall, DType::kVoid, src);
    names[k] = name;
    return k;
  }
  const Node* after(const Node* prev, NodeVec items) {
    NodeVec src{prev};
    src.insert(src.end(), items.begin(), items.end());
    return g.make(Op::kAfter, prev->dtype, src);
  }
  // "k1->k2 k2->k3" in the order found.
  std::string edges(NodeVec roots) {
    const auto deps = kernel_edges(ir::sink(g, roots));
    EXPECT_TRUE(deps.ok());
    std::string text;
    for (const KernelEdge& e : deps->edges)
      text.append(names.at(e.from)).append("->").append(names.at(e.to)).append(" ");
    if (!text.empty()) text.pop_back();
    return text;
  }
  Result<std::string> order(NodeVec roots) {
    ASSIGN_OR_RETURN(const Node* linear, create_schedule(g, ir::sink(g, roots)));
    std::string text;
    for (const Node* c : linear->src())
      text.append(c->src(0)->as<ir::KernelInfo>().name).append(" ");
    return text;
  }

  Graph g;
  std::map<const Node*, std::string> names;
  const Node* a0 = buffer(1);
  const Node* b0 = buffer(2);
  const Node* c0 = buffer(3);
};

TEST_F(Schedule, RawEdgeOrdersWriterBeforeReader) {
  const Node* k1 = kernel("k1", {a0});
  const Node* a1 = after(a0, {k1});
  const Node* k2 = kernel("k2", {b0, a1});
  EXPECT_EQ(edges({after(b0, {k2})}), "k1->k2");
}

TEST_F(Schedule, WarEdgeOrdersReaderBeforeOverwrite) {
  const Node* k2 = kernel("k2", {b0, a0});
  const Node* k1 = kernel("k1", {a0});
  EXPECT_EQ(edges({after(a0, {k1}), after(b0, {k2})}), "k2->k1");
  EXPECT_EQ(*order({after(a0, {k1}), after(b0, {k2})}), "k2 k1 ");
}

TEST_F(Schedule, ReaderOfAMiddleStateStandsBetweenTheWrites) {
  const Node* k1 = kernel("k1", {a0});
  const Node* a1 = after(a0, {k1});
  const Node* k2 = kernel("k2", {b0, a1});
  const Node* k3 = kernel("k3", {a1});
  EXPECT_EQ(edges({after(b0, {k2}), after(a1, {k3})}), "k1->k2 k1->k3 k2->k3");
}

TEST_F(Schedule, OnlyTheWriteThatSupersedesTheReadStateWaits) {
  const Node* k1 = kernel("k1", {a0});
  const Node* a1 = after(a0, {k1});
  const Node* k3 = kernel("k3", {a1});
  const Node* k2 = kernel("k2", {b0, a0});
  EXPECT_EQ(edges({after(a1, {k3}), after(b0, {k2})}), "k1->k3 k2->k1");
}

TEST_F(Schedule, AJoinedStateHasOnlyItsNewWriters) {
  const Node* k1 = kernel("k1", {a0});
  const Node* a1 = after(a0, {k1});
  const Node* kx = kernel("kx", {a1});
  const Node* k2 = kernel("k2", {b0, a1});
  // k2 reads a1: of a2's writers only kx supersedes it, k1 is in a1 already.
  EXPECT_EQ(edges({after(b0, {k2}), after(a1, {k1, kx})}), "k1->k2 k1->kx k2->kx");
}

TEST_F(Schedule, TwoBuffersFromOneKernelRunItOnce) {
  const Node* k = kernel("k", {a0, b0});
  const Node *a1 = after(a0, {k}), *b1 = after(b0, {k});
  const Node* k2 = kernel("k2", {c0, a1, b1});
  EXPECT_EQ(edges({after(c0, {k2})}), "k->k2");
  EXPECT_EQ(*order({after(c0, {k2})}), "k k2 ");
}

TEST_F(Schedule, InPlaceKernelHasNoEdgeToItself) {
  const Node* k = kernel("k", {a0, b0});
  EXPECT_EQ(edges({after(a0, {k})}), "");
}

TEST_F(Schedule, AStackOfStatesFansOut) {
  const Node* ka = kernel("ka", {a0});
  const Node* kb = kernel("kb", {b0});
  const Node *a1 = after(a0, {ka}), *b1 = after(b0, {kb});
  const Node* both = g.make(Op::kMStack, DType::kF32, {a1, b1});
  const Node* k = kernel("k", {c0, both});
  const Node* wa = kernel("wa", {a1});
  const Node* wb = kernel("wb", {b1});
  EXPECT_EQ(edges({after(c0, {k}), after(a1, {wa}), after(b1, {wb})}),
            "ka->k kb->k ka->wa kb->wb k->wa k->wb");
}

TEST_F(Schedule, APartOfAStackIsAStateOfThatPart) {
  const Node* ka = kernel("ka", {a0});
  const Node* a1 = after(a0, {ka});
  const Node* part = g.make(Op::kMSelect, DType::kF32, {a1}, int64_t{1});
  const Node* k = kernel("k", {c0, part});
  const Node* wa = kernel("wa", {a1});
  EXPECT_EQ(edges({after(c0, {k}), after(a1, {wa})}), "ka->k ka->wa k->wa");
}

TEST_F(Schedule, AnEdgeCountsOnceAndReadyKernelsLeaveInTheOrderTheyBecameReady) {
  const Node* k1 = kernel("k1", {a0, b0});
  const Node *a1 = after(a0, {k1}), *b1 = after(b0, {k1});
  // k2 reads k1's states three times, and overwrites one of them.
  const Node* k2 = kernel("k2", {a1, b1, a1});
  const Node* k3 = kernel("k3", {c0, b1});
  const NodeVec roots{after(a1, {k2}), after(c0, {k3})};
  EXPECT_EQ(edges(roots), "k1->k2 k1->k3");
  EXPECT_EQ(*order(roots), "k1 k2 k3 ");
  EXPECT_EQ(*order({roots[1], roots[0]}), "k1 k3 k2 ");
}

TEST_F(Schedule, StaleReaderBehindTheWriterIsRefused) {
  const Node* k1 = kernel("k1", {a0});
  const Node* a1 = after(a0, {k1});
  const Node* k2 = kernel("k2", {b0, a0, a1});  // wants a before and after k1
  const auto result = order({after(b0, {k2})});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(ir::fault_of(result.error()), ir::Fault::kStaleReader);
  EXPECT_THAT(result.error().what,
              HasSubstr("the kernel k2 reads buffer 1 as it was before the kernel k1 overwrites"));
}

TEST_F(Schedule, CrossedUpdatesAreACycle) {
  const Node* k1 = kernel("k1", {a0, b0});
  const Node* k2 = kernel("k2", {b0, a0});
  const auto result = order({after(a0, {k1}), after(b0, {k2})});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Errc::kCycle);
  EXPECT_EQ(ir::fault_of(result.error()), ir::Fault::kAssignCycle);
  EXPECT_EQ(result.error().what,
            "cycle detected in assign graph: 2 kernels wait on each other: the kernel k1, the "
            "kernel k2, and that one again");
}

TEST_F(Schedule, ACycleGivesNoOrderForTheKernelsOutsideOfItEither) {
  const Node* free = kernel("free", {c0});
  const Node* k1 = kernel("", {a0, b0});
  const Node* k2 = kernel("k2", {b0, a0});
  const auto result = order({after(c0, {free}), after(a0, {k1}), after(b0, {k2})});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(ir::fault_of(result.error()), ir::Fault::kAssignCycle);
  EXPECT_THAT(result.error().what, HasSubstr("the kernel writing buffer 1"));
  EXPECT_THAT(result.error().what, Not(HasSubstr("free")));
}

TEST_F(Schedule, PureOrderingJoinIsRespected) {
  // src written by two kernels, kd writes elsewhere; kc must come after all three.
  const Node* s1 = after(a0, {kernel("ka", {a0}), kernel("kb", {a0})});
  const Node* dep = after(b0, {kernel("kd", {b0})});
  const Node* out = after(c0, {kernel("kc", {c0, s1}), dep});
  const auto text = order({out});
  ASSERT_TRUE(text.ok());
  EXPECT_TRUE(text->ends_with("kc "));
}

TEST_F(Schedule, EndAroundAKernelIsSeenThrough) {
  const Node* device = ir::range(g, 2, 0, ir::AxisType::kDevice);
  const Node* k1 = kernel("k1", {a0});
  const Node* a1 = after(a0, {g.make(Op::kEnd, DType::kVoid, {k1, device})});
  EXPECT_EQ(edges({after(b0, {kernel("k2", {b0, a1})})}), "k1->k2");
}

TEST_F(Schedule, OddItemOfAStateIsAnError) {
  const Node* odd = after(a0, {ir::const_int(g, 1)});
  const auto result = order({odd});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(ir::fault_of(result.error()), ir::Fault::kAfterItem);
  EXPECT_THAT(result.error().what, HasSubstr("a state of buffer 1 waits on const"));
}

TEST_F(Schedule, IndependentKernelsKeepDiscoveryOrder) {
  NodeVec roots;
  for (int64_t n = 0; n < 9; n++)
    roots.push_back(
        after(buffer(10 + n), {kernel(strf("k%d", static_cast<int>(n)), {buffer(10 + n)})}));
  EXPECT_EQ(*order(roots), "k0 k1 k2 k3 k4 k5 k6 k7 k8 ");
}

TEST_F(Schedule, CallRecordsNameBaseBuffers) {
  const Node* k1 = kernel("k1", {a0});
  const Node* view =
      g.make(Op::kReshape, DType::kF32, {after(a0, {k1}), ir::shape_node(g, ir::Ints{2, 2})});
  const auto linear =
      create_schedule(g, ir::sink(g, NodeVec{after(b0, {kernel("k2", {b0, view})})}));
  ASSERT_TRUE(linear.ok());
  EXPECT_EQ((*linear)->src(1)->src(2), a0);
}

}  // namespace
}  // namespace modeld::schedule
