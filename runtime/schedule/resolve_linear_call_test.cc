#include "runtime/schedule/resolve_linear_call.h"

#include <gtest/gtest.h>

#include "runtime/ir/graph.h"
#include "runtime/schedule/create_linear_with_vars.h"
#include "runtime/schedule/memory_plan_rewrite.h"

namespace modeld::schedule {
namespace {

using ir::AxisType;
using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

class ResolveLinearCall : public ::testing::Test {
 protected:
  const Node* buffer(int64_t slot, int64_t n = 4, const std::string& device = "CPU") {
    return ir::buffer(g, slot, DType::kF32, n, ir::AddrSpace::kGlobal, device);
  }
  const Node* p(int64_t slot) { return ir::param(g, slot, DType::kF32, 4, "CPU"); }
  const Node* formal(int64_t slot) {  // "p<slot>" inside a body
    ir::ParamArg arg = ir::variable(g, "", 0, 10)->as<ir::ParamArg>();
    arg.slot = slot;
    arg.name = strf("p%lld", static_cast<long long>(slot));
    return g.make(Op::kParam, DType::kI32, {ir::shape_node(g, {})}, arg);
  }
  const Node* index(const Node* source, const Node* at) {
    return g.make(Op::kIndex, source->dtype, {source, at});
  }
  // out[r] = value, a kernel body.
  const Node* kernel(const Node* value, int64_t n = 4) {
    const Node* store = g.make(Op::kStore, DType::kVoid,
                               {index(ir::param(g, 0, DType::kF32, n, "CPU"), r(n)), value});
    const Node* end = g.make(Op::kEnd, DType::kVoid, {store, r(n)});
    return ir::sink(g, NodeVec{end}, ir::KernelInfo{});
  }
  const Node* r(int64_t n = 4) { return ir::range(g, n, 0, AxisType::kWeak); }
  const Node* call(const Node* body, NodeVec args) {
    NodeVec src{body};
    src.insert(src.end(), args.begin(), args.end());
    return g.make(Op::kCall, DType::kVoid, src);
  }
  const Node* linear(NodeVec calls) { return g.make(Op::kLinear, DType::kVoid, calls); }
  const Node* uses(const Node* variable) { return kernel(ir::cast(g, variable, DType::kF32)); }
  static const Node* unslotted(Graph& gr, const Node* v) {
    ir::ParamArg arg = v->as<ir::ParamArg>();
    arg.slot = -1;
    return gr.with_arg(v, arg);
  }

  Graph g;
};

TEST_F(ResolveLinearCall, SlotsBecomeArguments) {
  const auto flat = resolve_linear_call(
      g, call(linear({call(kernel(index(p(1), r())), {p(0), p(1)})}), {buffer(7), buffer(8)}));
  ASSERT_TRUE(flat.ok());
  EXPECT_EQ((*flat)->src(0)->src(1), buffer(7));
  EXPECT_EQ((*flat)->src(0)->src(2), buffer(8));
}

TEST_F(ResolveLinearCall, TemplatesAreFreshPerInstanceAndSharedWithinOne) {
  g.reserve_fresh(100);
  const Node* temp = buffer(50);
  const Node* k = kernel(index(p(1), r()));
  const Node* body = linear({call(k, {temp, p(1)}), call(k, {p(0), temp})});
  const auto one = resolve_linear_call(g, call(body, {buffer(7), buffer(8)}));
  const auto two = resolve_linear_call(g, call(body, {buffer(7), buffer(8)}));
  ASSERT_TRUE(one.ok() && two.ok());
  const Node* first = (*one)->src(0)->src(1);
  EXPECT_EQ(first, (*one)->src(1)->src(2));
  EXPECT_NE(first, temp);
  EXPECT_NE(first, (*two)->src(0)->src(1));
}

TEST_F(ResolveLinearCall, NestedCallsBindTheirOwnArgumentsAndInheritTheRest) {
  const Node *a = ir::variable(g, "a", 0, 10), *b = ir::variable(g, "b", 0, 10);
  const Node* inner = linear({call(uses(unslotted(g, formal(1))), {p(0)})});
  const Node* outer_only = linear({call(uses(unslotted(g, formal(2))), {p(0)})});
  const Node* outer = linear(
      {call(inner, {p(0), formal(1)}), call(inner, {p(0), formal(2)}), call(outer_only, {p(0)})});
  const auto flat =
      resolve_linear_call(g, call(outer, {buffer(7), *bind(g, a, 2), *bind(g, b, 3)}));
  ASSERT_TRUE(flat.ok()) << flat.error().what;
  ASSERT_EQ((*flat)->nsrc, 3U);
  EXPECT_EQ((*flat)->src(0)->src(0), uses(a));
  EXPECT_EQ((*flat)->src(1)->src(0), uses(b));
  EXPECT_EQ((*flat)->src(2)->src(0), uses(b));
}

TEST_F(ResolveLinearCall, FreeVariablesAreNeverReplaced) {
  const Node* free = ir::variable(g, "free", 0, 10);
  const auto flat =
      resolve_linear_call(g, call(linear({call(uses(free), {p(0)})}),
                                  {buffer(7), *bind(g, ir::variable(g, "a", 0, 10), 2)}));
  ASSERT_TRUE(flat.ok());
  EXPECT_EQ((*flat)->src(0)->src(0), uses(free));
}

TEST_F(ResolveLinearCall, SlotWithoutArgumentIsAnError) {
  const auto flat = resolve_linear_call(
      g, call(linear({call(kernel(index(p(1), r())), {p(0), p(1)})}), {buffer(7)}));
  ASSERT_FALSE(flat.ok());
  EXPECT_EQ(flat.error().code, Errc::kMismatch);
}

// ---- bind, create_linear_with_vars ----

TEST_F(ResolveLinearCall, BindChecksIntervalAndMultiple) {
  ir::ParamArg arg = ir::variable(g, "i", 4, 16)->as<ir::ParamArg>();
  arg.multiple_of = 4;
  const Node* i = g.make(Op::kParam, DType::kI32, {ir::shape_node(g, {})}, arg);
  EXPECT_TRUE(bind(g, i, 8).ok());
  EXPECT_FALSE(bind(g, i, 0).ok());
  EXPECT_FALSE(bind(g, i, 20).ok());
  EXPECT_FALSE(bind(g, i, 6).ok());
  EXPECT_FALSE(bind(g, buffer(1), 6).ok());
}

class CreateLinearWithVars : public ResolveLinearCall {
 protected:
  // SINK(out[...] = x + slots' variables) called with these arguments.
  Result<LinearWithVars> run(NodeVec variables, NodeVec arguments) {
    const Node* sum = p(1);
    for (const Node* v : variables) sum = ir::add(g, sum, ir::cast(g, v, DType::kF32));
    const Node* after =
        g.make(Op::kAfter, DType::kF32, {p(0), g.make(Op::kStore, DType::kVoid, {p(0), sum})});
    NodeVec all{buffer(7), buffer(8)};
    all.insert(all.end(), arguments.begin(), arguments.end());
    ScheduleOptions o;
    o.cache = false;
    return create_linear_with_vars(g, call(ir::sink(g, NodeVec{after}), all), o);
  }
  const Node* i = ir::variable(g, "i", 0, 10);
};

TEST_F(CreateLinearWithVars, UsedVariablesAreReported) {
  const auto r = run({formal(2)}, {*bind(g, i, 3)});
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(r->vars, (VarBinds{{"i", 3}}));
}

TEST_F(CreateLinearWithVars, UnusedBindingsAreIgnored) {
  const auto r = run({}, {*bind(g, i, 3)});
  ASSERT_TRUE(r.ok());
  EXPECT_TRUE(r->vars.empty());
}

TEST_F(CreateLinearWithVars, TwoValuesForOneNameAreRefused) {
  const auto r = run({formal(2), formal(3)}, {*bind(g, i, 0), *bind(g, i, 1)});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().what, "bind mismatch on i, 0 != 1");
}

TEST_F(CreateLinearWithVars, AMissingValueIsNotAnErrorYet) {
  const auto r = run({i}, {});
  ASSERT_TRUE(r.ok());
  EXPECT_TRUE(r->vars.empty());
}

// ---- memory_plan_rewrite on a LINEAR ----

TEST_F(ResolveLinearCall, PlanPlacesTemporariesAndLeavesHeldBuffers) {
  const Node* k = kernel(index(p(1), r()));
  const Node *a = buffer(1, 250), *b = buffer(2, 250), *c = buffer(3, 250), *d = buffer(4, 250);
  const auto plan =
      memory_plan_rewrite(g, linear({call(k, {b, a}), call(k, {c, b}), call(k, {d, c})}), {a, d});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->find(a), nullptr);
  EXPECT_EQ(plan->find(d), nullptr);
  ASSERT_NE(plan->find(b), nullptr);
  EXPECT_EQ(plan->find(b)->offset, 0);
  EXPECT_EQ(plan->find(c)->offset, 1024);
  EXPECT_EQ(plan->find(c)->size, 1000);
  ASSERT_EQ(plan->lanes.size(), 1U);
  EXPECT_EQ(plan->lanes[0].arena_size, 2048);
  EXPECT_EQ(plan->lanes[0].sum_size, 2048);
  EXPECT_EQ(plan->lanes[0].lower_bound, 2048);
}

TEST_F(ResolveLinearCall, PlannerSwitchedOffPlacesNothing) {
  ScheduleOptions o;
  o.memory_planner = false;
  const auto plan = memory_plan_rewrite(
      g, linear({call(kernel(index(p(1), r())), {buffer(2), buffer(1)})}), {}, o);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->buffers.empty());
}

TEST_F(ResolveLinearCall, CopiesHaveTheirOwnLane) {
  const Node* copy =
      g.make(Op::kCopy, DType::kF32, {ir::param(g, 1, DType::kF32, 4, "CPU")}, std::string("DEV1"));
  const Node* b = buffer(2, 4, "DEV1");
  const auto plan =
      memory_plan_rewrite(g,
                          linear({call(copy, {b, buffer(1)}),
                                  call(kernel(index(p(1), r())), {buffer(3, 4, "DEV1"), b})}),
                          {buffer(1)});
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->lanes.size(), 2U);
  EXPECT_TRUE(plan->lanes[static_cast<size_t>(plan->find(b)->lane)].copy);
  EXPECT_FALSE(plan->lanes[static_cast<size_t>(plan->find(buffer(3, 4, "DEV1"))->lane)].copy);
}

TEST_F(ResolveLinearCall, BuffersTooLargeToAddressAreRefusedNotWrapped) {
  const Node* huge = buffer(2, INT64_MAX / 2);
  const auto plan = memory_plan_rewrite(
      g, linear({call(kernel(index(p(1), r())), {huge, buffer(1)})}), {buffer(1)});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Errc::kOutOfMemory);
}

}  // namespace
}  // namespace modeld::schedule
