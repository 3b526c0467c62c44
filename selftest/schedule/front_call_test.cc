// From wanted tensors to the CALL that computes them: needs_storage, transform_to_call,
// apply_map_to_tensors, resolve_function, lower_sink_to_linear and its cache.
#include "runtime/schedule/precompiled_call.h"
#include "runtime/schedule/resolve_function.h"

#include "selftest/testing/session_lab.h"

namespace modeld::exec::test {
namespace {

using schedule::CallAndMap;
using schedule::ScheduleOptions;

// A graph by hand.
class CallLab : public ::testing::Test, public SessionLab {
 protected:
  const Node* buffer(int64_t slot, int64_t n, const std::string& device = "CPU") {
    g.reserve_fresh(1000);
    return ir::buffer(g, slot, DType::kF32, n, ir::AddrSpace::kGlobal, device);
  }
  const Node* param(int64_t slot, ir::Ints dims, DType t = DType::kF32) {
    ir::ParamArg arg;
    arg.slot = slot;
    arg.device = "CPU";
    return g.make(Op::kParam, t, {ir::shape_node(g, dims)}, arg);
  }
  const Node* scalar_param(int64_t slot, int64_t vmin, int64_t vmax) {
    ir::ParamArg arg = ir::variable(g, strf("p%lld", static_cast<long long>(slot)), vmin, vmax)
                           ->as<ir::ParamArg>();
    arg.slot = slot;
    return g.make(Op::kParam, DType::kI32, {ir::shape_node(g, {})}, arg);
  }
  const Node* reshape(const Node* x, ir::Ints d) {
    return g.make(Op::kReshape, x->dtype, {x, ir::shape_node(g, d)});
  }
  const Node* shrink(const Node* x, ir::Ints at, ir::Ints size) {
    return g.make(Op::kShrink, x->dtype, {x, ir::shape_node(g, at), ir::shape_node(g, size)});
  }
  const Node* contiguous(const Node* x) { return g.make(Op::kContiguous, x->dtype, {x}); }
  const Node* copy(const Node* x, const std::string& device) {
    return g.make(Op::kCopy, x->dtype, {x}, device);
  }
  const Node* written(const Node* state, const Node* value) {
    return g.make(Op::kAfter, state->dtype,
                  {state, g.make(Op::kStore, DType::kVoid, {state, value})});
  }
  const Node* one_more(const Node* x) { return ir::add(g, x, ir::const_float(g, 1, DType::kF32)); }
  const Node* function(NodeVec results, NodeVec args, bool precompiled = false) {
    NodeVec src{g.make(Op::kTuple, DType::kVoid, results)};
    src.insert(src.end(), args.begin(), args.end());
    return precompiled ? g.make(Op::kFunction, DType::kVoid, src, true)
                       : g.make(Op::kFunction, DType::kVoid, src);
  }
  const Node* result(const Node* f, int64_t i) {
    return g.make(Op::kGetTuple, f->src(0)->src(static_cast<size_t>(i))->dtype, {f}, i);
  }
  Result<CallAndMap> try_call(NodeVec roots) {
    return schedule::transform_to_call(g, ir::sink(g, roots));
  }
  CallAndMap call(NodeVec roots) {
    auto r = try_call(std::move(roots));
    EXPECT_TRUE(r.ok()) << r.error().what;
    return r.ok() ? std::move(*r) : CallAndMap{};
  }
  size_t stores(const CallAndMap& c) { return c.call->src(0)->nsrc; }
  Fault refused(const NodeVec& roots) {
    const auto r = try_call(roots);
    EXPECT_FALSE(r.ok());
    g.clear_failure();
    return r.ok() ? Fault::kNone : ir::fault_of(r.error());
  }
};

// ---- needs_storage ----

class NeedsStorage : public CallLab {};

TEST_F(NeedsStorage, TruthTable) {
  const Node* b = buffer(11, 4);
  EXPECT_FALSE(ir::needs_storage(g, ir::const_float(g, 1, DType::kF32)));
  EXPECT_FALSE(ir::needs_storage(g, ir::variable(g, "n", 0, 4)));
  EXPECT_FALSE(ir::needs_storage(g, *schedule::bind(g, ir::variable(g, "n", 0, 4), 2)));
  EXPECT_FALSE(ir::needs_storage(g, b));
  EXPECT_FALSE(ir::needs_storage(g, reshape(b, {2, 2})));
  EXPECT_TRUE(ir::needs_storage(g, shrink(b, {1}, {2})));
  EXPECT_TRUE(ir::needs_storage(g, written(b, one_more(b))));
  EXPECT_TRUE(ir::needs_storage(g, one_more(b)));
}

TEST_F(NeedsStorage, NothingToRealiseMakesNoSchedule) {
  const Live b = floats({4}, {1, 2, 3, 4});
  realize({b, track(s.value(b).reshape({2, 2})), track(fill({3}, 1)),
           track(Tensor::variable(g, "n", 0, 4)), track(s.value(b).transpose(0, 0))});
  EXPECT_EQ(s.stats().schedules, 0U);
  EXPECT_EQ(s.stats().launches, 0U);
  realize({});
  EXPECT_EQ(s.stats().schedules, 0U);
}

TEST_F(NeedsStorage, ASliceOfABufferIsAViewThatCostsNothing) {
  const Live b = floats({4}, {1, 2, 3, 4});
  const Live part = track(s.value(b).shrink({1}, {2}));
  realize({part});
  EXPECT_EQ(s.stats().schedules, 0U);
  EXPECT_EQ(read(part), (Values{2, 3}));
  EXPECT_EQ(s.stats().launches, 0U);
}

TEST_F(NeedsStorage, AnEmptyNobodyWritesGetsNoMemory) {
  const Live e = empty({16});
  realize({e});
  EXPECT_FALSE(s.has_memory(ir::base(e.node())));
  EXPECT_EQ(s.stats().allocations, 0U);
  assign(e, fill({16}, 2));
  realize({e});
  EXPECT_TRUE(s.has_memory(ir::base(e.node())));
}

TEST_F(NeedsStorage, AWeakValueWithADeviceIsRefused) {
  const Node* weak = ir::cast(g, s.value(floats({2}, {1, 2})).node(), DType::kWeakFloat);
  ASSERT_TRUE(ir::is_weak(weak->dtype));
  EXPECT_EQ(fault(s.realize({track(Tensor(g, weak))})), Fault::kWeakRealize);
  EXPECT_EQ(fault(s.empty({2}, DType::kWeakInt).error()), Fault::kWeakStorage);
}

// ---- transform_to_call ----

class TransformToCall : public CallLab {};

TEST_F(TransformToCall, AViewIsAnArgumentOfItsOwnAndItsOffsetIsNotInTheKey) {
  const auto body = [&](int64_t at) {
    const Node* view = shrink(buffer(11, 20), {at}, {4});
    const CallAndMap c = call({one_more(contiguous(view))});
    EXPECT_EQ(c.call->src(2), view);
    EXPECT_EQ(c.map.at(contiguous(view)), view);
    return c.call->src(0);
  };
  EXPECT_EQ(body(3), body(8));
  EXPECT_EQ(body(3)->key, body(8)->key);
}

TEST_F(TransformToCall, ABitcastBetweenItemSizesIsAView) {
  const Node* bytes = g.make(Op::kBitCast, DType::kU8, {shrink(buffer(11, 20), {4}, {4})});
  const CallAndMap c = call({contiguous(bytes)});
  EXPECT_EQ(stores(c), 0U);
  EXPECT_EQ(c.map.at(contiguous(bytes)), bytes);
  const Live f = floats({2}, {1, 2});
  const Live low = track(Tensor(g, g.make(Op::kBitCast, DType::kU8, {s.value(f).node()}))
                             .shrink({4}, {4})
                             .contiguous());
  EXPECT_EQ(read(low), (Values{0, 0, 0, 64}));
  EXPECT_EQ(s.stats().launches, 0U);
}

TEST_F(TransformToCall, AViewOfABufferTheCallWritesIsCopied) {
  const Node* b = buffer(11, 8);
  const Node* c = contiguous(shrink(b, {0}, {2}));
  const CallAndMap both = call({written(b, one_more(b)), c});
  EXPECT_EQ(stores(both), 2U);
  EXPECT_NE(ir::base(both.map.at(c)), b);
}

TEST_F(TransformToCall, WritesNameWhatTheySupersede) {
  const Node* b = buffer(11, 8);
  const Node* s1 = written(b, one_more(b));
  const Node* s2 = written(s1, one_more(s1));
  const CallAndMap c = call({s2});
  ASSERT_EQ(c.writes.size(), 2U);
  EXPECT_EQ(c.writes[0].state, s1);
  EXPECT_EQ(c.writes[0].previous, b);
  EXPECT_EQ(c.writes[1].state, s2);
  EXPECT_EQ(c.writes[1].previous, s1);
}

TEST_F(TransformToCall, ACopyFromTheHostGetsItsOwnBuffer) {
  const Node* c = copy(buffer(11, 4, "HOST"), "CPU");
  const Node* y = one_more(c);
  const CallAndMap r = call({y});
  ASSERT_TRUE(r.map.contains(c));
  EXPECT_EQ(ir::device(g, r.map.at(c)), "CPU");
  EXPECT_FALSE(call({one_more(copy(buffer(11, 4, "CPU:1"), "CPU"))})
                   .map.contains(copy(buffer(11, 4, "CPU:1"), "CPU")));
}

TEST_F(TransformToCall, AnAssignOfACopyTakesItOver) {
  const Node *b = buffer(11, 4), *c = copy(buffer(12, 4, "HOST"), "CPU");
  const Node* state = written(b, c);
  const CallAndMap r = call({state});
  EXPECT_EQ(stores(r), 1U);
  EXPECT_EQ(r.call->nsrc, 3U);  // one buffer, not two
  EXPECT_EQ(ir::base(r.map.at(c)), b);
}

TEST_F(TransformToCall, ACopyToDiskIsMappedToADiskBuffer) {
  const Node* c = copy(buffer(11, 4), "DISK:/nowhere");
  const CallAndMap r = call({c});
  EXPECT_EQ(ir::device(g, r.map.at(c)), "DISK:/nowhere");
}

TEST_F(TransformToCall, ContiguousOnDiskAndEmptyValuesMakeNoStore) {
  const CallAndMap disk = call({contiguous(one_more(buffer(11, 8, "DISK:x")))});
  EXPECT_TRUE(disk.map.empty());
  EXPECT_EQ(stores(disk), 0U);
  const Node* none = shrink(buffer(11, 8), {2}, {0});
  EXPECT_EQ(stores(call({one_more(none), contiguous(none)})), 0U);
}

TEST_F(TransformToCall, ACopyOfAWeakValueIsRefused) {
  const Node* weak = ir::cast(g, buffer(11, 4), DType::kWeakFloat);
  EXPECT_EQ(refused({one_more(ir::cast(g, copy(weak, "CPU:1"), DType::kF32))}),
            Fault::kWeakStorage);
}

TEST_F(TransformToCall, AWriteIntoAViewOfAValueWithoutMemoryIsRefused) {
  const Node* value = one_more(buffer(11, 4));
  const Node* part = g.make(Op::kStore, DType::kVoid, {shrink(value, {0}, {2}), buffer(12, 2)});
  EXPECT_EQ(refused({g.make(Op::kAfter, DType::kF32, {value, part})}), Fault::kAssignUnrealised);
  const Node* all = g.make(Op::kStore, DType::kVoid, {value, buffer(12, 4)});
  const Node* replaced = g.make(Op::kAfter, DType::kF32, {value, all});
  EXPECT_EQ(call({replaced}).map.count(replaced), 1U);  // all of it: the value is replaced
}

TEST_F(TransformToCall, KeysDependOnNeitherBuffersNorBoundValues) {
  const Node* i = ir::variable(g, "i", 0, 10);
  const auto body = [&](int64_t slot, int64_t value) {
    const Node* v = *schedule::bind(g, i, value);
    return call({ir::add(g, buffer(slot, 4), ir::cast(g, v, DType::kF32))}).call->src(0)->key;
  };
  EXPECT_EQ(body(11, 5), body(12, 10));
}

TEST_F(TransformToCall, NoValueOfTheMapIsAKey) {
  const Node *b = buffer(11, 8), *c = contiguous(shrink(b, {1}, {4}));
  const Node* bits = g.make(Op::kBitCast, DType::kI32, {b});
  const Node* state = written(buffer(12, 4), one_more(c));
  const CallAndMap r = call({c, bits, state, one_more(state)});
  EXPECT_GE(r.map.size(), 3U);
  for (const auto& [from, to] : r.map) EXPECT_FALSE(r.map.contains(to)) << ir::op_name(from->op);
}

// ---- precompiled FUNCTIONs ----

class PrecompiledFunction : public CallLab {
 protected:
  Live value(const Node* n) { return track(Tensor(g, n)); }
  const Node* p(int64_t slot) { return param(slot, {4}); }
  Live a = floats({4}, {1, 2, 3, 4});
  Live b = floats({4}, {10, 20, 30, 40});
  const Node* na = s.value(a).node();
  const Node* nb = s.value(b).node();
};

TEST_F(PrecompiledFunction, IsACallWithABufferPerResult) {
  const Node* f = function({ir::add(g, p(0), p(1)), one_more(p(0))}, {na, nb}, true);
  const Node *sum = result(f, 0), *more = result(f, 1);
  const CallAndMap c = call({sum, more});
  size_t calls = 0;
  for (const Node* n : ir::toposort(c.call->src(0))) calls += n->op == Op::kCall ? 1 : 0;
  EXPECT_EQ(calls, 1U);
  const Live x = value(sum), y = value(more);
  realize({x, y});
  EXPECT_EQ(read(x), (Values{11, 22, 33, 44}));
  EXPECT_EQ(read(y), (Values{2, 3, 4, 5}));
  EXPECT_EQ(s.stats().launches, 2U);
}

TEST_F(PrecompiledFunction, IsScheduledOncePerShape) {
  schedule::schedule_cache_clear();
  const NodeVec body{one_more(p(0))};
  const Live x = value(
      ir::mul(g, result(function(body, {na}, true), 0), result(function(body, {nb}, true), 0)));
  realize({x});
  EXPECT_EQ(read(x), (Values{22, 63, 124, 205}));
  EXPECT_EQ(schedule::schedule_cache_stats().entries, 2);  // the body, and what is around it
}

TEST_F(PrecompiledFunction, ArgumentsThatAreNoBuffersAreMadeSo) {
  const Node* f = function({one_more(p(0))}, {ir::mul(g, na, nb)}, true);
  EXPECT_EQ(read(value(result(f, 0))), (Values{11, 41, 91, 161}));
  const Live big = floats({8}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Node* part = function({one_more(p(0))}, {shrink(s.value(big).node(), {3}, {4})}, true);
  EXPECT_EQ(read(value(result(part, 0))), (Values{5, 6, 7, 8}));
}

TEST_F(PrecompiledFunction, AResultThatIsAParameterIsTheArgument) {
  const Node* f = function({p(1), one_more(p(0))}, {na, nb}, true);
  const Live x = value(result(f, 0)), y = value(result(f, 1));
  realize({x, y});
  EXPECT_EQ(s.stats().launches, 1U);
  EXPECT_EQ(read(x), (Values{10, 20, 30, 40}));
}

TEST_F(PrecompiledFunction, AResultAskedForTwiceIsCopied) {
  const Node* v = one_more(p(0));
  const Node* f = function({v, contiguous(v), v}, {na}, true);
  const Live x = value(result(f, 0)), y = value(result(f, 1)), z = value(result(f, 2));
  realize({x, y, z});
  EXPECT_NE(s.storage(x), s.storage(y));
  EXPECT_NE(s.storage(x), s.storage(z));
  for (const Live& t : {x, y, z}) EXPECT_EQ(read(t), (Values{2, 3, 4, 5}));
}

TEST_F(PrecompiledFunction, AStateOfAParameterWritesTheArgument) {
  const Node* f = function({written(p(0), ir::add(g, p(0), p(1)))}, {na, nb}, true);
  const Node* where = ir::base(s.storage(a));
  s.set(a, Tensor(g, result(f, 0)));
  realize({a});
  EXPECT_EQ(ir::base(s.storage(a)), where);
  EXPECT_EQ(read(a), (Values{11, 22, 33, 44}));
}

TEST_F(PrecompiledFunction, BuffersTheBodyNamesAreArguments) {
  const Node* f = function({ir::mul(g, p(0), nb)}, {na}, true);
  EXPECT_EQ(read(value(result(f, 0))), (Values{10, 40, 90, 160}));
  assign(b, fill({4}, 2));
  realize({b});
  const Node* again = function({ir::mul(g, p(0), s.value(b).node())}, {na}, true);
  EXPECT_EQ(read(value(result(again, 0))), (Values{2, 4, 6, 8}));
}

TEST_F(PrecompiledFunction, MayCallAnother) {
  const Node* inner = function({one_more(p(0)), ir::mul(g, p(0), p(0))}, {p(1)}, true);
  const Node* body = ir::add(g, ir::mul(g, result(inner, 0), result(inner, 1)), p(0));
  const Node* f = function({body}, {na, nb}, true);
  EXPECT_EQ(read(value(result(f, 0))), (Values{1101, 8402, 27903, 65604}));
}

TEST_F(PrecompiledFunction, ArgumentsMustFit) {
  const Node* small = buffer(500, 3);
  EXPECT_EQ(refused({result(function({one_more(p(0))}, {small}, true), 0)}), Fault::kFunctionShape);
  EXPECT_EQ(refused({result(function({one_more(p(2))}, {na, nb}, true), 0)}),
            Fault::kFunctionSlots);
}

// ---- apply_map_to_tensors ----

class ApplyMapToTensors : public CallLab {};

TEST_F(ApplyMapToTensors, RewritesWhoeverSharesANodeAndNobodyElse) {
  const Node *x = one_more(buffer(11, 4)), *y = ir::mul(g, x, x), *z = one_more(buffer(12, 4));
  const CallAndMap c = call({x});
  const NodeVec after = schedule::apply_map_to_tensors(g, {x, y, z}, c.map);
  EXPECT_EQ(after[0], c.map.at(x));
  EXPECT_EQ(after[1], ir::mul(g, c.map.at(x), c.map.at(x)));
  EXPECT_EQ(after[2], z);
}

TEST_F(ApplyMapToTensors, DoesNotRewriteInsideAReplacement) {
  const Node *a = buffer(11, 4), *b = buffer(12, 4);
  const ir::NodeMap map{{a, one_more(b)}, {b, a}};
  EXPECT_EQ(schedule::apply_map_to_tensors(g, {one_more(a), b}, map),
            (NodeVec{one_more(one_more(b)), a}));
}

TEST_F(ApplyMapToTensors, ReachesBodiesOfFunctions) {
  const Node *a = buffer(11, 4), *b = buffer(12, 4);
  const Node* f = result(function({ir::mul(g, param(0, {4}), a)}, {b}), 0);
  EXPECT_EQ(schedule::apply_map_to_tensors(g, {f}, {{a, b}})[0],
            result(function({ir::mul(g, param(0, {4}), b)}, {b}), 0));
}

TEST_F(ApplyMapToTensors, RealisingOneTensorGivesTheOtherItsBuffer) {
  const Live a = floats({4}, {1, 2, 3, 4});
  const Live t1 = track(s.value(a) + 1), t2 = track(s.value(t1) * 2);
  const Live other = track(s.value(a) * 5);
  const Node* untouched = other.node();
  realize({t1});
  EXPECT_EQ(t2.node(), (s.value(t1) * 2).node());
  EXPECT_TRUE(ir::has_buffer_identity(t1.node()));
  EXPECT_EQ(other.node(), untouched);
  EXPECT_EQ(read(t2), (Values{4, 6, 8, 10}));
  EXPECT_EQ(s.stats().launches, 2U);
}

// ---- resolve_function ----

class ResolveFunction : public CallLab {
 protected:
  const Node* resolved(const Node* n) {
    const auto r = schedule::resolve_functions(g, n);
    EXPECT_TRUE(r.ok()) << r.error().what;
    return r.ok() ? *r : nullptr;
  }
  Fault refused_function(const Node* f, bool strict = false) {
    const auto r = schedule::resolve_function(g, f, strict);
    EXPECT_FALSE(r.ok());
    return r.ok() ? Fault::kNone : ir::fault_of(r.error());
  }
  const Node* p(int64_t slot) { return param(slot, {4}); }
  const Node* a = buffer(11, 4);
  const Node* b = buffer(12, 4);
};

TEST_F(ResolveFunction, SlotsAreInlined) {
  EXPECT_EQ(resolved(result(function({ir::mul(g, p(0), one_more(p(1)))}, {a, b}), 0)),
            ir::mul(g, a, one_more(b)));
}

TEST_F(ResolveFunction, ParametersInsideArgumentsAreNotCapturedAgain) {
  const Node* f = function({ir::mul(g, p(0), p(1))}, {one_more(p(1)), b});
  EXPECT_EQ(resolved(result(f, 0)), ir::mul(g, one_more(p(1)), b));
}

TEST_F(ResolveFunction, OneFunctionInsideAnother) {
  const Node* inner = function({one_more(p(0))}, {p(1)});
  EXPECT_EQ(resolved(result(function({ir::mul(g, result(inner, 0), p(0))}, {a, b}), 0)),
            ir::mul(g, one_more(b), a));
}

TEST_F(ResolveFunction, SeveralResultsArePickedByPosition) {
  const Node* f = function({one_more(p(0)), ir::mul(g, p(0), p(0))}, {a});
  EXPECT_EQ(resolved(result(f, 0)), one_more(a));
  EXPECT_EQ(resolved(result(f, 1)), ir::mul(g, a, a));
  const Live x = floats({4}, {1, 2, 3, 4});
  const Node* g2 = function({one_more(p(0)), ir::mul(g, p(0), p(0))}, {s.value(x).node()});
  const Live y = track(Tensor(g, result(g2, 0))), z = track(Tensor(g, result(g2, 1)));
  realize({y, z});
  EXPECT_EQ(read(y), (Values{2, 3, 4, 5}));
  EXPECT_EQ(read(z), (Values{1, 4, 9, 16}));
}

TEST_F(ResolveFunction, UnusedParametersAreFineUnlessStrict) {
  const Node* f = function({one_more(p(1))}, {a, b});
  EXPECT_TRUE(schedule::resolve_function(g, f).ok());
  EXPECT_EQ(refused_function(f, true), Fault::kFunctionSlots);
  EXPECT_TRUE(schedule::resolve_function(g, function({ir::add(g, p(0), p(1))}, {a, b}), true).ok());
}

TEST_F(ResolveFunction, ArgumentsMustFitTheirParameters) {
  EXPECT_EQ(refused_function(function({one_more(p(0))}, {buffer(13, 5)})), Fault::kFunctionShape);
  EXPECT_EQ(refused_function(function({one_more(p(0))}, {reshape(a, {2, 2})})),
            Fault::kFunctionShape);
  const Node* ints = ir::buffer(g, 14, DType::kI32, 4, ir::AddrSpace::kGlobal, "CPU");
  EXPECT_EQ(refused_function(function({one_more(p(0))}, {ints})), Fault::kFunctionDtype);
  EXPECT_EQ(refused_function(function({one_more(p(1))}, {a})), Fault::kFunctionSlots);
}

TEST_F(ResolveFunction, AResultThatIsNotThereIsRefused) {
  const Node* f = function({one_more(p(0))}, {a});
  const Node* second = g.make(Op::kGetTuple, DType::kF32, {f}, int64_t{1});
  const auto r = schedule::resolve_functions(g, second);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(ir::fault_of(r.error()), Fault::kFunctionSlots);
}

// ---- lower_sink_to_linear ----

class LowerSinkToLinear : public CallLab {
 protected:
  LowerSinkToLinear() { schedule::schedule_cache_clear(); }
  Result<const Node*> lower(const NodeVec& roots, const ScheduleOptions& o = {}) {
    return schedule::lower_sink_to_linear(g, call(roots).call->src(0), o);
  }
  static schedule::ScheduleCacheStats stats() { return schedule::schedule_cache_stats(); }
};

TEST_F(LowerSinkToLinear, CountsHitsAndMisses) {
  ASSERT_TRUE(lower({one_more(buffer(11, 4))}).ok());
  ASSERT_TRUE(lower({one_more(buffer(12, 4))}).ok());
  ASSERT_TRUE(lower({one_more(buffer(12, 5))}).ok());
  EXPECT_EQ(stats().hits, 1);
  EXPECT_EQ(stats().misses, 2);
  EXPECT_EQ(stats().entries, 2);
}

TEST_F(LowerSinkToLinear, AFinishedKernelPassesThrough) {
  const Node* kernel = ir::sink(g, NodeVec{}, ir::KernelInfo{});
  EXPECT_EQ(*schedule::lower_sink_to_linear(g, kernel), kernel);
  EXPECT_EQ(stats().misses, 0);
}

TEST_F(LowerSinkToLinear, CallsInsideAreLoweredToo) {
  const Node* f = function({one_more(param(0, {4}))}, {buffer(11, 4)}, true);
  const auto linear = lower({one_more(result(f, 0))});
  ASSERT_TRUE(linear.ok()) << linear.error().what;
  bool nested = false;
  for (const Node* c : (*linear)->src()) nested = nested || c->src(0)->op == Op::kLinear;
  EXPECT_TRUE(nested);
  EXPECT_EQ(stats().misses, 2);
}

TEST_F(LowerSinkToLinear, AValueFunctionIsNeverScheduledAlone) {
  const Node* f = function({one_more(param(0, {4}))}, {param(0, {4})});
  for (const Node* n : {f, f->src(0)}) {
    const auto r = schedule::lower_sink_to_linear(g, n);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(ir::fault_of(r.error()), Fault::kValueScheduled);
  }
  const auto inside = schedule::lower_sink_to_linear(g, ir::sink(g, NodeVec{f}));
  ASSERT_FALSE(inside.ok());
  EXPECT_EQ(ir::fault_of(inside.error()), Fault::kValueScheduled);
}

// ---- schedule_cache, SCACHE, SPEC ----

class ScheduleCache : public LowerSinkToLinear {};

TEST_F(ScheduleCache, SwitchedOffItIsNeitherReadNorWritten) {
  ScheduleOptions off;
  off.cache = false;
  ASSERT_TRUE(lower({one_more(buffer(11, 4))}, off).ok());
  EXPECT_EQ(stats().entries, 0);
  ASSERT_TRUE(lower({one_more(buffer(11, 4))}).ok());
  ASSERT_TRUE(lower({one_more(buffer(11, 4))}, off).ok());
  EXPECT_EQ(stats().hits, 0);
  EXPECT_EQ(stats().misses, 1);
}

TEST_F(ScheduleCache, TheSpecIsCheckedOnAMissOnly) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(lower({one_more(buffer(11, 4))}).ok());
  EXPECT_EQ(stats().spec_checks, 1);
  ScheduleOptions unchecked;
  unchecked.spec = 0;
  unchecked.cache = false;
  ASSERT_TRUE(lower({one_more(buffer(11, 5))}, unchecked).ok());
  EXPECT_EQ(stats().spec_checks, 1);
}

TEST_F(ScheduleCache, AMissFindsWhatTheSpecForbids) {
  const Node* bad = g.make(Op::kWhere, DType::kF32, {param(0, {4}), param(0, {4}), param(0, {4})});
  const Node* out = param(1, {4});
  const auto r = schedule::lower_sink_to_linear(g, ir::sink(g, NodeVec{written(out, bad)}));
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().what.find("tensor spec"), std::string::npos) << r.error().what;
}

TEST_F(ScheduleCache, AChangedOptionMissesAndTheOldEntryIsStillThere) {
  Live sum = floats({4}, {1, 1, 1, 1});
  Tensor t = s.value(sum);
  for (int i = 0; i < 9; ++i) t = t + s.value(floats({4}, {1, 1, 1, 1}));
  const auto kernels = [&](int64_t most) {
    ScheduleOptions o;
    o.max_kernel_buffers = most;
    const auto linear = lower({t.node()}, o);
    EXPECT_TRUE(linear.ok());
    return linear.ok() ? (*linear)->nsrc : 0;
  };
  EXPECT_EQ(kernels(31), 1U);
  EXPECT_EQ(kernels(4), 5U);
  EXPECT_EQ(stats().hits, 0);
  EXPECT_EQ(kernels(31), 1U);
  EXPECT_EQ(stats().hits, 1);
}

TEST_F(ScheduleCache, AHitSaysNothingOfCompiledKernelsOrMemory) {
  {
    SessionLab first;
    const SessionLinear l = first.linear({first.track(first.s.value(first.empty({4})) + 1)});
    EXPECT_EQ(l.linear->nsrc, 1U);
  }
  SessionOptions cold = lab_options();
  cold.compile.program_cache = make_program_cache();
  Session second(g, store, cold);
  const Live e = *second.empty({4}, DType::kF32);
  const std::vector<Live> wanted{second.track(second.value(e) + 1)};
  const int64_t hits = stats().hits;
  const auto l = second.linear_with_vars(wanted);
  ASSERT_TRUE(l.ok());
  EXPECT_EQ(stats().hits, hits + 1);
  EXPECT_EQ(second.stats().compile.kernels, 0U);
  EXPECT_EQ(second.stats().allocations, 0U);
  EXPECT_EQ(l->linear->src(0)->src(0)->op, Op::kSink);  // not a program yet
  ASSERT_TRUE(second.run_linear(l->linear, l->vars, Deadline::in_ms(60'000)).ok());
  EXPECT_EQ(second.stats().compile.cold, 1U);
  EXPECT_GT(second.stats().allocations, 0U);
}

TEST_F(ScheduleCache, BoundValuesShareOneEntry) {
  const Live a = floats({4}, {1, 2, 3, 4});
  const Node* i = ir::variable(g, "i", 1, 10);
  for (const int64_t v : {5, 10}) {
    const Tensor bound(g, *schedule::bind(g, i, v));
    const auto first = static_cast<double>(1 + v);
    EXPECT_EQ(read(track(s.value(a) + bound.cast(DType::kF32))),
              (Values{first, first + 1, first + 2, first + 3}));
  }
  EXPECT_EQ(stats().entries, 1);
  EXPECT_EQ(stats().hits, 1);
}

}  // namespace
}  // namespace modeld::exec::test
