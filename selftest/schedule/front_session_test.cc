// Live tensors from realize to executed LINEARs: variables, nested calls, capture, compiling
// several LINEARs at once, devices, symbolic sizes.
#include "selftest/testing/session_lab.h"

namespace modeld::exec::test {
namespace {

using schedule::VarBinds;

class SessionTest : public ::testing::Test, public SessionLab {
 protected:
  Tensor bound(const Node* variable, int64_t v) {
    const auto made = schedule::bind(g, variable, v);
    EXPECT_TRUE(made.ok()) << made.error().what;
    return {g, made.ok() ? *made : variable};
  }
  Live a = floats({4}, {1, 2, 3, 4});
  Live b = floats({4}, {10, 20, 30, 40});
  const Node* i = ir::variable(g, "i", 0, 10);
};

// ---- create_linear_with_vars ----

class CreateLinearWithVars : public SessionTest {};

TEST_F(CreateLinearWithVars, UsedVariablesAreReportedWithTheirValues) {
  const SessionLinear l =
      linear({track(s.value(a) + bound(i, 4).cast(DType::kF32)), track(s.value(b) + 1)});
  EXPECT_EQ(l.vars, (VarBinds{{"i", 4}}));
  EXPECT_TRUE(linear({track(s.value(b) + 2)}).vars.empty());
}

TEST_F(CreateLinearWithVars, TwoValuesForOneNameAreRefusedAndChangeNothing) {
  const Live x = track(s.value(a) + bound(i, 0).cast(DType::kF32));
  const Live y = track(s.value(b) + bound(i, 1).cast(DType::kF32));
  const Node* before = x.node();
  const Status both = s.realize({x, y});
  EXPECT_EQ(fault(both), Fault::kBindMismatch);
  EXPECT_NE(both.error().what.find("bind mismatch on i, 0 != 1"), std::string::npos);
  EXPECT_EQ(x.node(), before);
  EXPECT_EQ(read(x), (Values{1, 2, 3, 4}));  // one by one they are fine
  EXPECT_EQ(read(y), (Values{11, 21, 31, 41}));
}

TEST_F(CreateLinearWithVars, AMissingValueIsFoundAtLaunchNotBefore) {
  const Live x = track(s.value(a) + Tensor(g, i).cast(DType::kF32));
  const std::vector<Live> wanted{x};
  const auto l = s.linear_with_vars(wanted);
  ASSERT_TRUE(l.ok()) << l.error().what;
  ASSERT_TRUE(s.compile(std::vector<const Node*>{l->linear}).ok());
  const Status ran = s.run_linear(l->linear, l->vars, Deadline::in_ms(60'000), l->plan);
  EXPECT_EQ(fault(ran), Fault::kUnboundVariable);
  EXPECT_NE(ran.error().what.find("unbound Variable i"), std::string::npos) << ran.error().what;
  ASSERT_TRUE(s.run_linear(l->linear, {{"i", 7}}, Deadline::in_ms(60'000), l->plan).ok());
  EXPECT_EQ(read(x), (Values{8, 9, 10, 11}));
}

TEST_F(CreateLinearWithVars, ARealizeThatCannotLaunchLeavesTheTensorToBeComputed) {
  const Live x = track(s.value(a) + Tensor(g, i).cast(DType::kF32));
  const Node* before = x.node();
  EXPECT_EQ(fault(s.realize({x})), Fault::kUnboundVariable);
  EXPECT_EQ(x.node(), before);
}

TEST_F(CreateLinearWithVars, BindingOutsideOfTheIntervalIsRefused) {
  const auto low = schedule::bind(g, i, -1), high = schedule::bind(g, i, 11);
  ASSERT_FALSE(low.ok() || high.ok());
  EXPECT_EQ(ir::fault_of(low.error()), Fault::kBindRange);
  EXPECT_EQ(ir::fault_of(high.error()), Fault::kBindRange);
  ir::ParamArg arg = i->as<ir::ParamArg>();
  arg.multiple_of = 4;
  const auto odd = schedule::bind(g, g.with_arg(i, arg), 6);
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(ir::fault_of(odd.error()), Fault::kBindMultiple);
}

// ---- resolve_linear_call ----

class ResolveLinearCall : public SessionTest {};

TEST_F(ResolveLinearCall, TwoCallsOfOneBodyUseTheirOwnVariables) {
  ir::ParamArg formal = i->as<ir::ParamArg>();
  formal.slot = 1;
  formal.name = "p1";
  const Node* n = g.make(Op::kParam, DType::kI32, {ir::shape_node(g, {})}, formal);
  ir::ParamArg first;
  first.slot = 0;
  first.device = "CPU";
  const Node* x = g.make(Op::kParam, DType::kF32, {ir::shape_node(g, ir::Ints{4})}, first);
  const Node* body = g.make(Op::kTuple, DType::kVoid, {ir::mul(g, x, ir::cast(g, n, DType::kF32))});
  const auto times = [&](const Node* v, int64_t value) {
    const Node* f = g.make(Op::kFunction, DType::kVoid,
                           {body, s.value(a).node(), bound(v, value).node()}, true);
    return track(Tensor(g, g.make(Op::kGetTuple, DType::kF32, {f}, int64_t{0})));
  };
  const Live two = times(ir::variable(g, "a", 0, 10), 2);
  const Live three = times(ir::variable(g, "b", 0, 10), 3);
  realize({two, three});
  EXPECT_EQ(read(two), (Values{2, 4, 6, 8}));
  EXPECT_EQ(read(three), (Values{3, 6, 9, 12}));
}

TEST_F(ResolveLinearCall, TemporariesAreFreshPerInstance) {
  // The same schedule twice: a hit whose temporaries must not be shared with the first.
  const auto two_steps = [&](const Live& x) {
    return track((s.value(x).exp2().contiguous() * 2).sum());
  };
  const SessionLinear one = linear({two_steps(a)}), two = linear({two_steps(b)});
  ASSERT_EQ(one.linear->nsrc, 2U);
  ASSERT_EQ(two.linear->nsrc, 2U);
  EXPECT_NE(one.linear->src(0)->src(1), two.linear->src(0)->src(1));
}

// ---- CAPTURING ----

class Recorded final : public schedule::Capturer {
 public:
  Status add_linear(const Node* linear, const VarBinds& vars) override {
    linears.push_back(linear);
    binds.push_back(vars);
    return {};
  }
  NodeVec linears;
  std::vector<VarBinds> binds;
};

class Capturing : public SessionTest {
 protected:
  Recorded recorded;
};

TEST_F(Capturing, TheCapturerGetsTheLinearAndTheCallerAnEmptyOne) {
  ASSERT_TRUE(s.begin_capture(recorded).ok());
  const Live x = track(s.value(a) + bound(i, 3).cast(DType::kF32));
  const SessionLinear l = linear({x});
  EXPECT_TRUE(l.empty());
  ASSERT_EQ(recorded.linears.size(), 1U);
  EXPECT_EQ(recorded.linears[0]->nsrc, 1U);
  EXPECT_EQ(recorded.binds[0], (VarBinds{{"i", 3}}));
  s.end_capture();
  EXPECT_EQ(s.stats().captured, 1U);
}

TEST_F(Capturing, NothingIsPlannedOrRunOnTheCapturedPath) {
  ASSERT_TRUE(s.begin_capture(recorded).ok());
  const Live x = track((s.value(a).exp2().contiguous() * 2).sum());
  const uint64_t allocations = s.stats().allocations;
  realize({x});
  EXPECT_EQ(s.stats().planned, 0U);
  EXPECT_EQ(s.stats().launches, 0U);
  EXPECT_EQ(s.stats().allocations, allocations);
  EXPECT_EQ(s.stats().compile.kernels, 0U);
  s.end_capture();
  realize({track(s.value(a) + 1)});
  EXPECT_EQ(s.stats().planned, 1U);
}

TEST_F(Capturing, LaterStepsReadTheBuffersOfEarlierOnes) {
  ASSERT_TRUE(s.begin_capture(recorded).ok());
  const Live x = track(s.value(a) + 1);
  realize({x});
  assign(a, s.value(x) * 2);
  realize({a});
  s.end_capture();
  ASSERT_EQ(recorded.linears.size(), 2U);
  const Node* second = recorded.linears[1]->src(0);
  EXPECT_EQ(second->src(1), ir::base(s.storage(a)));
  EXPECT_EQ(second->src(2), recorded.linears[0]->src(0)->src(1));
  for (const Node* l : recorded.linears)
    ASSERT_TRUE(s.run_linear(l, {}, Deadline::in_ms(60'000)).ok());
  EXPECT_EQ(read(a), (Values{4, 6, 8, 10}));
}

TEST_F(Capturing, SwitchedOffItExecutesAtOnceAndIsNotRecorded) {
  ASSERT_TRUE(s.begin_capture(recorded).ok());
  s.set_capturing(false);
  const Live x = track(s.value(a) + 1);
  EXPECT_EQ(read(x), (Values{2, 3, 4, 5}));
  s.set_capturing(true);
  s.end_capture();
  EXPECT_TRUE(recorded.linears.empty());
  EXPECT_EQ(s.stats().captured, 0U);
  EXPECT_EQ(s.stats().launches, 1U);
}

TEST_F(Capturing, ReadingDataIsRefused) {
  ASSERT_TRUE(s.begin_capture(recorded).ok());
  EXPECT_EQ(fault(s.read(a).error()), Fault::kCaptureRead);
  s.end_capture();
  EXPECT_EQ(read(a), (Values{1, 2, 3, 4}));
}

TEST_F(Capturing, ASecondCaptureInsideIsRefused) {
  Recorded inner;
  ASSERT_TRUE(s.begin_capture(recorded).ok());
  EXPECT_EQ(fault(s.begin_capture(inner)), Fault::kCaptureNested);
  s.end_capture();
  EXPECT_TRUE(s.begin_capture(inner).ok());
  s.end_capture();
}

// ---- compile, run ----

class SessionCompile : public SessionTest {};

TEST_F(SessionCompile, SeveralLinearsAreOneBatchOfDistinctKernels) {
  std::vector<const Node*> linears;
  std::vector<SessionLinear> work;
  std::vector<Live> outs;
  for (int n = 0; n < 6; ++n) {
    outs.push_back(track(s.value(n % 2 ? a : b) + (n / 2)));
    work.push_back(linear({outs.back()}));
    linears.push_back(work.back().linear);
  }
  const auto compiled = s.compile(linears);
  ASSERT_TRUE(compiled.ok()) << compiled.error().what;
  EXPECT_EQ(s.stats().compile.kernels, 3U);
  for (size_t n = 0; n < compiled->size(); ++n) {
    EXPECT_EQ((*compiled)[n]->src(0)->src(0)->op, Op::kProgram);
    EXPECT_EQ((*compiled)[n]->src(0)->src(1), linears[n]->src(0)->src(1));  // arguments untouched
    ASSERT_TRUE(s.run_linear((*compiled)[n], {}, Deadline::in_ms(60'000), work[n].plan).ok());
  }
  EXPECT_EQ(read(outs[5]), (Values{3, 4, 5, 6}));
}

TEST_F(SessionCompile, NothingToDoGivesTheSameLinear) {
  const SessionLinear l = linear({track(s.value(a) + 1)});
  const auto once = s.compile(std::vector<const Node*>{l.linear});
  ASSERT_TRUE(once.ok());
  const auto twice = s.compile(*once);
  ASSERT_TRUE(twice.ok());
  EXPECT_EQ((*once)[0], (*twice)[0]);
  EXPECT_EQ(s.stats().compile.kernels, 1U);
}

TEST_F(SessionCompile, CopiesPassThrough) {
  const Tensor there{g, g.make(Op::kCopy, DType::kF32, {s.value(a).node()}, std::string("CPU:1"))};
  const SessionLinear l = linear({track(there)});
  ASSERT_GE(l.linear->nsrc, 1U);
  const auto compiled = s.compile(std::vector<const Node*>{l.linear});
  ASSERT_TRUE(compiled.ok()) << compiled.error().what;
  EXPECT_EQ((*compiled)[0]->src(0)->src(0)->op, Op::kCopy);
}

// ---- devices ----

class SessionDevices : public SessionTest {};

TEST_F(SessionDevices, CopiesGoBetweenDevicesAndKernelsStayOnOne) {
  const auto to = [&](const Tensor& x, const std::string& device) {
    return Tensor(g, g.make(Op::kCopy, x.dtype(), {x.node()}, device));
  };
  const Live y = track(to(to(s.value(a) + 1, "CPU:1") * 2, "CPU:2") + 5);
  EXPECT_EQ(read(y), (Values{9, 11, 13, 15}));
  EXPECT_GE(s.stats().copies, 2U);
  EXPECT_NE(*s.device("CPU"), *s.device("CPU:1"));
}

TEST_F(SessionDevices, AKernelAcrossDevicesIsRefused) {
  const Live far = floats({4}, {1, 1, 1, 1}, "CPU:1");
  const Live sum = track(s.value(a) + s.value(far));
  EXPECT_EQ(fault(s.realize({sum})), Fault::kMixedDevices);
  EXPECT_EQ(read(a), (Values{1, 2, 3, 4}));
}

TEST_F(SessionDevices, ADeviceThatIsNotHereIsAnError) {
  const auto t = s.upload(std::vector<float>{1}, {1}, "TPU");
  ASSERT_FALSE(t.ok());
  EXPECT_EQ(t.error().code, Errc::kUnsupported);
}

TEST_F(SessionDevices, ConstantsAndStridedViewsCanBeRead) {
  EXPECT_EQ(read(track(fill({3}, 7))), (Values{7, 7, 7}));
  EXPECT_EQ(read(track(s.value(a).reshape({2, 2}).transpose(0, 1))), (Values{1, 3, 2, 4}));
  EXPECT_EQ(read(track(Tensor::arange(g, 3))), (Values{0, 1, 2}));
  EXPECT_EQ(read(track(s.value(a).shrink({4}, {0}))), Values{});
}

TEST_F(SessionDevices, CollectFreesWhatNoLiveTensorReaches) {
  {
    const Live gone = track(s.value(a) + 1);
    realize({gone});
  }
  const Tensor kept = s.value(b);
  b = Live();
  s.collect();
  EXPECT_TRUE(s.has_memory(ir::base(a.node())));
  EXPECT_FALSE(s.has_memory(ir::base(kept.node())));
  EXPECT_EQ(fault(s.realize({track(kept + 1)})), Fault::kStaleReader);
}

}  // namespace
}  // namespace modeld::exec::test
